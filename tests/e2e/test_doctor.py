"""`retold doctor`: what it finds on servers that are well, and on some that are not."""

from typing import Any

import psycopg
import pytest

from app.cli.doctor import _constraints, _graph_version, _vector
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.graph.facts import GraphFacts
from app.infrastructure.postgres.facts import DatabaseFacts
from tests.commandline import Answer, Cli
from tests.servers import with_database

NOBODY = "127.0.0.1:1"


def states(answer: Answer) -> dict[str, Any]:
    return {each["name"]: each["state"] for each in answer.json["checks"]}


def check(answer: Answer, name: str) -> Any:
    (found,) = [each for each in answer.json["checks"] if each["name"] == name]
    return found


@pytest.mark.graph
def test_servers_that_are_well_pass_every_check(cli_on_both: Cli) -> None:
    cli_on_both("projector", "once")

    answer = cli_on_both("doctor", "--json")

    assert answer.code == 0
    assert states(answer) == dict.fromkeys(
        (
            "database",
            "database version",
            "vector extension",
            "migrations",
            "database permissions",
            "outbox",
            "projector",
            "graph",
            "graph version",
            "graph constraints",
            "graph permissions",
        ),
        "ok",
    )


@pytest.mark.graph
def test_credentials_are_shown_only_when_asked_for(cli_on_both: Cli, database: str, graph: GraphEndpoint) -> None:
    plain, full = cli_on_both("doctor", "--json"), cli_on_both("doctor", "--json", "--credentials")

    assert "@" not in plain.json["database"]["url"]
    assert plain.json["database"]["url"].startswith("postgresql://127.0.0.1:")
    assert plain.json["graph"] == {"url": graph.url, "user": graph.user, "database": graph.database}
    assert full.json["database"]["url"] == database
    assert full.json["graph"]["password"] == graph.password
    for shown in (plain.out, cli_on_both("doctor").out):
        assert graph.password not in shown


@pytest.mark.graph
def test_looking_changes_nothing(cli_on_both: Cli, graph: GraphEndpoint) -> None:
    before = cli_on_both("projector", "verify", "--json").json
    cli_on_both("doctor")

    assert cli_on_both("projector", "verify", "--json").json["nodes"] == before["nodes"] == 0


def test_without_any_server_both_checks_fail_and_say_what_to_start(cli: Cli) -> None:
    answer = cli("doctor", "--json")

    assert answer.code == 1
    assert states(answer) == {"database": "failed", "graph": "failed"}
    assert "retold up" in check(answer, "database")["advice"]
    assert answer.json["database"]["url"] is None
    assert cli("doctor").code == 1


def test_a_graph_that_is_gone_is_a_failure_and_the_log_is_looked_at_all_the_same(
    cli_on_log: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETOLD_GRAPH_URL", f"bolt://{NOBODY}")

    answer = cli_on_log("doctor", "--json")

    assert answer.code == 1
    assert states(answer)["graph"] == "failed"
    assert states(answer)["migrations"] == "ok"


def test_a_database_that_is_gone_is_a_failure_without_its_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_DATABASE_URL", f"postgresql://somebody:s3cret-word@{NOBODY}/retold")

    answer = cli("doctor", "--json")

    assert answer.code == 1
    assert states(answer)["database"] == "failed"
    assert "s3cret-word" not in answer.out + answer.err
    assert answer.json["database"]["url"] == f"postgresql://{NOBODY}/retold"


def test_a_database_that_was_never_migrated_fails_with_the_command_to_run(
    cli: Cli, bare_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETOLD_DATABASE_URL", bare_database)

    answer = cli("doctor", "--json")

    assert answer.code == 1
    assert "retold migrate" in check(answer, "migrations")["advice"]


def test_a_database_that_does_not_exist_is_a_failure(cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_DATABASE_URL", with_database(database, "there_is_no_such_database"))

    assert states(cli("doctor", "--json"))["database"] == "failed"


def test_a_role_that_may_not_write_is_a_failure(
    cli_on_log: Cli, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER DATABASE " + connection.info.dbname + " SET default_transaction_read_only = on")

    answer = cli_on_log("doctor", "--json")

    assert answer.code == 1
    assert check(answer, "database permissions")["found"] == "read-only"


def test_no_projector_yet_and_parked_rows_are_warnings_that_say_where_to_look(cli_on_log: Cli, database: str) -> None:
    cli_on_log("seed")
    with psycopg.connect(database) as connection:
        connection.execute(
            "UPDATE outbox SET parked_at = now() WHERE id = "
            "(SELECT min(id) FROM outbox WHERE aggregate_type = 'graph_projection')"
        )

    answer = cli_on_log("doctor", "--json")

    assert check(answer, "projector")["state"] == "warning"
    assert "has never run" in check(answer, "projector")["found"]
    assert check(answer, "outbox")["state"] == "warning"
    assert "parked list" in check(answer, "outbox")["advice"]


def test_a_projector_that_is_silent_for_too_long_is_a_warning(cli_on_log: Cli, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE projections SET last_attempt_at = now() - interval '1 hour'")

    found = check(cli_on_log("doctor", "--json"), "projector")

    assert found["state"] == "warning"
    assert "dead or stuck" in found["advice"]


@pytest.mark.parametrize(
    ("available", "installed", "state"),
    [("0.8.1", "0.8.1", "ok"), ("0.8.1", None, "warning"), (None, None, "warning"), ("0.7.4", "0.7.4", "warning")],
)
def test_the_vector_extension_is_told_apart_by_version(available: str, installed: str, state: str) -> None:
    facts = DatabaseFacts(17, "17.2", available, installed, "retold", True, False, True)

    assert _vector(facts).state == state


def test_a_graph_without_constraints_waits_for_the_projector(cli: Cli) -> None:
    found = _constraints(GraphFacts("Neo4j Kernel", "5.26.0", ("somebody_elses",), None))

    assert found.state == "warning"
    assert found.advice is not None
    assert "projector" in found.advice


@pytest.mark.parametrize(
    ("version", "state"), [("4.4.40", "failed"), ("5.25.1", "failed"), ("5.26.30", "ok"), ("2026.08.1", "ok")]
)
def test_an_old_graph_server_fails(version: str, state: str) -> None:
    assert _graph_version(GraphFacts("Neo4j Kernel", version, (), None)).state == state
