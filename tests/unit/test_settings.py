"""What the environment may say and how a mistake in it is answered."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from app.domain.errors import RuleBroken
from app.settings import Settings, load_settings, variable, without_credentials


def test_without_variables_everything_has_a_default() -> None:
    settings = load_settings()

    assert settings.home == Path(".retold")
    assert settings.database_url is None
    assert settings.graph_url is None
    assert settings.batch_size == 500
    assert settings.poll_interval == timedelta(seconds=2)
    assert settings.hints is True


def test_durations_are_given_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_POLL_INTERVAL", "0.5")
    monkeypatch.setenv("RETOLD_GRAPH_TIMEOUT", "30")

    settings = load_settings()

    assert settings.poll_interval == timedelta(milliseconds=500)
    assert settings.graph_timeout == timedelta(seconds=30)


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.setenv(variable(name), "")

    assert load_settings() == Settings()


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("RETOLD_BATCH_SIZE", "0", "a whole number from 1 to 1000"),
        ("RETOLD_BATCH_SIZE", "1001", "a whole number from 1 to 1000"),
        ("RETOLD_BATCH_SIZE", "many", "a whole number from 1 to 1000"),
        ("RETOLD_MAX_ATTEMPTS", "0", "a whole number from 1 to 1000"),
        ("RETOLD_POLL_INTERVAL", "0", "seconds, more than 0"),
        ("RETOLD_POLL_INTERVAL", "-1", "seconds, more than 0"),
        ("RETOLD_POLL_INTERVAL", "1e-9", "seconds, more than 0"),
        ("RETOLD_POLL_INTERVAL", "nan", "seconds, more than 0"),
        ("RETOLD_POLL_INTERVAL", "1e400", "seconds, more than 0"),
        ("RETOLD_POLL_INTERVAL", "PT2S", "seconds, more than 0"),
        ("RETOLD_PROJECTOR_PORT", "65536", "a port number from 0 to 65535"),
        ("RETOLD_PROJECTOR_HOST", "a b", "the address to listen on"),
        ("RETOLD_HINTS", "maybe", "true or false"),
        ("RETOLD_LOG_FORMAT", "xml", "auto, console or json"),
        ("RETOLD_LOG_LEVEL", "loud", "debug, info, warning or error"),
        ("RETOLD_TENANT", "a tenant", "letters, digits"),
        ("RETOLD_GRAPH_DATABASE", "a/b", "the name of a database"),
        ("RETOLD_GRAPH_URL", "http://graph:7687", "bolt://host:port"),
        ("RETOLD_GRAPH_URL", "bolt://", "bolt://host:port"),
        ("RETOLD_GRAPH_URL", "bolt://graph:99999", "bolt://host:port"),
        ("RETOLD_GRAPH_URL", "bolt://graph:7687/movies", "bolt://host:port"),
        ("RETOLD_GRAPH_URL", "bolt://graph:7687?x=y", "without a path or a query"),
        ("RETOLD_GRAPH_URL", "bolt://graph:7687?", "without a path or a query"),
        ("RETOLD_HOME", "~nobody-of-that-name/x", "the path of a folder"),
        ("RETOLD_GRAPH_URL", "graph:7687", "bolt://host:port"),
    ],
)
def test_a_wrong_value_is_answered_with_the_variable_the_value_and_what_is_accepted(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, accepted: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(RuleBroken) as refused:
        load_settings()

    message = str(refused.value)
    assert message.startswith(f"{name} is '{value}': give ")
    assert accepted in message
    assert "\n" not in message


@pytest.mark.parametrize("url", ["mysql://me:hush@there/db", "there", "postgresql://me:hush@there:99999/db", "hush"])
def test_a_wrong_database_url_is_never_shown(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("RETOLD_DATABASE_URL", url)

    with pytest.raises(RuleBroken, match=r"RETOLD_DATABASE_URL .*give postgresql://") as refused:
        load_settings()

    assert "hush" not in str(refused.value)
    assert "there" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hu@sh@there:1/db",
        "postgresql://me:hu/sh@there:1/db",
        "postgresql://me:12/hush@there/db",
        "postgresql://me:12?hush@there/db",
        "postgresql://me:12#hush@there/db",
        "postgresql://me:hush%@there/db",
        "postgresql://me:hush%zz@there/db",
        "postgresql://me:hush%00@there/db",
        "postgresql://me:pw@the re:1/hush",
        "postgresql://me:pw@there:1,hush:x/db",
    ],
)
def test_a_database_url_with_special_characters_is_answered_with_how_to_write_them(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("RETOLD_DATABASE_URL", url)

    with pytest.raises(RuleBroken, match="percent-encode special characters in user and password") as refused:
        load_settings()

    assert not {"hu", "sh", "hush", "there"} & set(re.split(r"\W+", str(refused.value)))


@pytest.mark.parametrize("url", ["http://me:hush@graph", "bolt://me:hu@sh@[graph", "me:hush@graph:7687"])
def test_a_wrong_graph_url_is_shown_without_its_credentials(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("RETOLD_GRAPH_URL", url)

    with pytest.raises(RuleBroken, match="RETOLD_GRAPH_URL") as refused:
        load_settings()

    assert "hush" not in str(refused.value)
    assert "hu@sh" not in str(refused.value)
    assert "graph" in str(refused.value)


def test_every_mistake_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_BATCH_SIZE", "0")
    monkeypatch.setenv("RETOLD_LOG_LEVEL", "loud")

    with pytest.raises(RuleBroken) as refused:
        load_settings()

    assert [line.split()[0] for line in str(refused.value).splitlines()] == ["RETOLD_BATCH_SIZE", "RETOLD_LOG_LEVEL"]


def test_a_misspelt_variable_is_answered_with_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_POLL_INTERVL", "2")

    with pytest.raises(RuleBroken, match=r"RETOLD_POLL_INTERVL .*did you mean RETOLD_POLL_INTERVAL\?"):
        load_settings()


@pytest.mark.parametrize("name", ["retold_poll_intervl", "Retold_Poll_Intervl"])
def test_a_misspelt_variable_is_refused_in_whatever_case(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "2")

    with pytest.raises(RuleBroken, match=rf"{name} .*did you mean RETOLD_POLL_INTERVAL\?"):
        load_settings()


def test_a_variable_counts_in_whatever_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("retold_batch_size", "7")
    assert load_settings().batch_size == 7

    monkeypatch.setenv("retold_batch_size", "0")
    with pytest.raises(RuleBroken, match="RETOLD_BATCH_SIZE is '0'"):
        load_settings()


def test_a_variable_given_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("retold_batch_size", "7")
    monkeypatch.setenv("RETOLD_BATCH_SIZE", "8")

    with pytest.raises(RuleBroken, match="RETOLD_BATCH_SIZE and retold_batch_size"):
        load_settings()


def test_variables_of_tests_and_benchmarks_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_TEST_SOMETHING", "1")
    monkeypatch.setenv("RETOLD_BENCH_ROWS", "1")

    assert load_settings() == Settings()


def test_credentials_in_the_graph_url_become_user_and_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_GRAPH_URL", "neo4j+s://writer:p%40ss%2Fword@graph.example:7687")

    settings = load_settings()

    assert settings.graph_url == "neo4j+s://graph.example:7687"
    assert settings.graph_user == "writer"
    assert settings.graph_password == SecretStr("p@ss/word")


def test_a_password_given_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_GRAPH_URL", "bolt://writer:hush@graph:7687")
    monkeypatch.setenv("RETOLD_GRAPH_PASSWORD", "other")

    with pytest.raises(RuleBroken, match="RETOLD_GRAPH_URL and RETOLD_GRAPH_PASSWORD") as refused:
        load_settings()

    assert "hush" not in str(refused.value)
    assert "other" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:p%40ss%2Fword@db-1.example:5432/retold?sslmode=require",
        "postgresql://me@[::1]:5432/retold",
        "postgresql://me@%2Frun%2Fpostgresql/retold",
        "postgres://me@db/retold",
        "postgresql://me:pw@one:1,two:2/retold",
        "postgresql:///retold?host=/run/postgresql",
    ],
)
def test_every_form_of_a_postgresql_url_is_accepted(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("RETOLD_DATABASE_URL", url)

    assert load_settings().database_url == SecretStr(url)


def test_secrets_do_not_show_in_the_settings_themselves() -> None:
    shown = repr(Settings(database_url=SecretStr("postgresql://me:hush@db/x"), graph_password=SecretStr("hush")))

    assert "hush" not in shown


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().batch_size = 5  # type: ignore[misc]


def test_a_url_is_shown_without_its_credentials() -> None:
    assert without_credentials("bolt://me:hu@sh@graph:7687") == "bolt://…@graph:7687"
    assert without_credentials("bolt://graph:7687") == "bolt://graph:7687"
