"""The command line as a whole: help, versions, and how every command refuses what is wrong (X-27)."""

import io
import runpy
import sys
from importlib.metadata import EntryPoint, version
from typing import Any

import psycopg
import pytest

from app.cli import main
from app.infrastructure.graph.endpoint import GraphEndpoint
from projector.writer import GraphWriter
from tests.commandline import Answer, Cli, commands

SERVES = {("up",), ("projector", "run")}

WRONG_COMMAND_LINES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("evnts",), "events"),
    (("--nonsense",), "--nonsense"),
    (("up", "now"), "now"),
    (("demo", "now"), "now"),
    (("doctor", "--port", "1"), "--port"),
    (("migrate", "head"), "head"),
    (("seed", "--dry"), "--dry"),
    (("events", "--tail", "-1"), "--tail"),
    (("events", "--tail", "many"), "--tail"),
    (("events", "--tail", "1000000000"), "--tail"),
    (("events", "--after", "-1"), "--after"),
    (("events", "--after", str(2**63)), "--after"),
    (("events", "--stream"), "--stream"),
    (("projector", "replays"), "replays"),
    (("projector", "once", "more"), "more"),
    (("projector", "parked", "retry"), "row"),
    (("projector", "parked", "retry", "first"), "row"),
    (("projector", "parked", "skip", "1", "--yes"), "--reason"),
)
WRONG_VALUES: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("events", "--type", "session.opend"), 6, "did you mean session.opened?"),
    (("events", "--type", "x"), 6, "session.opened"),
    (("events", "--tenant", ""), 6, "tenant is empty"),
    (("events", "--tenant", " a"), 6, "outer spaces"),
    (("events", "--tenant", "a" * 201), 6, "at most 200"),
    (("events", "--stream", "session-\x00"), 6, "do not print"),
    (("events", "--stream", "session-\udcff"), 6, "do not print"),
    (("events", "--tenant", "a", "--all-tenants"), 6, "--all-tenants"),
    (("events", "--follow", "--after", "1", "--tail", "1"), 6, "--after"),
    (("projector", "parked", "retry", "42"), 4, "not parked"),
    (("projector", "parked", "skip", "42", "--yes", "--reason", "a mistake", "--operator", "me"), 4, "not parked"),
)
WRONG_SETTINGS: tuple[tuple[str, str], ...] = (
    ("RETOLD_NONSENSE", "1"),
    ("RETOLD_TENANT", "a b"),
    ("RETOLD_DATABASE_URL", "mysql://127.0.0.1/retold"),
    ("RETOLD_GRAPH_URL", "http://127.0.0.1"),
    ("RETOLD_BATCH_SIZE", "0"),
    ("RETOLD_PROJECTOR_PORT", "70000"),
    ("RETOLD_STUCK_AFTER", "soon"),
)
NEEDS_A_SERVER: tuple[tuple[str, ...], ...] = (
    ("migrate",),
    ("migrate", "--check"),
    ("seed",),
    ("seed", "--dry-run"),
    ("events",),
    ("events", "-f"),
    ("projector", "run"),
    ("projector", "once"),
    ("projector", "status"),
    ("projector", "replay", "--yes"),
    ("projector", "verify"),
    ("projector", "parked", "list"),
    ("projector", "parked", "retry", "1"),
)


@pytest.fixture
def parked_row(database: str) -> None:
    """Row 1 is parked, and row 2 behind it; nothing else is in the outbox."""
    with psycopg.connect(database) as connection:
        for row, behind in ((1, None), (2, 1)):
            connection.execute(
                "INSERT INTO outbox (id, tenant, aggregate_type, aggregate_id, event_position, parked_at, behind) "
                "OVERRIDING SYSTEM VALUE VALUES (%s, 'default', 'graph_projection', 'session-s', %s, now(), %s)",
                (row, row, behind),
            )


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_explains_itself_with_an_example(cli: Cli, words: tuple[str, ...]) -> None:
    answer = cli(*words, "--help")

    assert answer.code == 0
    assert f"Example: retold {' '.join(words)}" in answer.out


@pytest.mark.parametrize("words", [each for each in commands() if each not in SERVES], ids=" ".join)
def test_every_command_that_answers_also_does_so_in_json(cli: Cli, words: tuple[str, ...]) -> None:
    assert "--json" in cli(*words, "--help").out


@pytest.mark.parametrize(
    ("words", "below"),
    [((), "events"), (("projector",), "replay"), (("projector", "parked"), "retry")],
    ids=str,
)
def test_without_a_command_it_shows_what_there_is_and_that_one_is_missing(
    cli: Cli, words: tuple[str, ...], below: str
) -> None:
    answer = cli(*words)

    assert answer.code == 2
    assert below in answer.out
    assert answer.err == ""


def test_it_says_its_version(cli: Cli) -> None:
    assert cli("--version").out == f"retold {version('retold')}\n"


@pytest.mark.parametrize(("words", "named"), WRONG_COMMAND_LINES, ids=str)
def test_a_wrong_command_line_is_refused_in_one_line(
    cli_on_log: Cli, database: str, words: tuple[str, ...], named: str
) -> None:
    answer = cli_on_log(*words)

    assert answer.code == 2
    assert answer.is_one_line(named, "--help`")
    assert _events(database) == 0


@pytest.mark.parametrize(("words", "code"), [(("--help",), 0), (("now",), 2), (("--nonsense",), 2)], ids=str)
def test_the_projector_as_a_program_takes_no_words_but_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int
) -> None:
    monkeypatch.setattr(sys, "argv", ["projector", *words])

    with pytest.raises(SystemExit) as ended:
        runpy.run_module("projector", run_name="__main__")

    answer = Answer(int(str(ended.value.code)), *capsys.readouterr())
    assert answer.code == code
    if code:
        assert answer.is_one_line(*words, "see `python -m projector --help`")
    else:
        assert "Example: python -m projector" in answer.out


@pytest.mark.parametrize(("words", "code", "said"), WRONG_VALUES, ids=str)
def test_a_wrong_value_is_refused_in_one_line_and_nothing_is_stored(
    cli_on_log: Cli, database: str, words: tuple[str, ...], code: int, said: str
) -> None:
    answer = cli_on_log(*words)

    assert answer.code == code
    assert answer.is_one_line(said)
    assert _events(database) == 0


@pytest.mark.parametrize(("name", "value"), WRONG_SETTINGS)
@pytest.mark.parametrize("words", [("up",), ("seed",), ("doctor",), ("projector", "once")], ids=" ".join)
def test_a_wrong_setting_is_named_and_nothing_starts(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    answer = cli(*words)

    assert answer.code == 6
    assert answer.is_one_line(name)


@pytest.mark.parametrize("words", NEEDS_A_SERVER, ids=" ".join)
def test_a_command_without_a_server_says_how_to_start_one(cli: Cli, words: tuple[str, ...]) -> None:
    answer = cli(*words)

    assert answer.code == 7
    assert answer.is_one_line("retold up", "RETOLD_DATABASE_URL")


@pytest.mark.parametrize("words", [("seed",), ("events",), ("projector", "status")], ids=" ".join)
def test_a_command_on_a_database_that_was_never_migrated_says_what_to_run(
    cli: Cli, bare_database: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("RETOLD_DATABASE_URL", bare_database)

    answer = cli(*words)

    assert answer.code == 7
    assert answer.is_one_line("retold migrate")


@pytest.mark.parametrize("words", [("migrate",), ("seed",), ("events",)], ids=" ".join)
def test_a_password_is_never_part_of_an_error(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("RETOLD_DATABASE_URL", "postgresql://somebody:s3cret-word@127.0.0.1:1/retold")

    answer = cli(*words)

    assert answer.code == 7
    assert answer.is_one_line("127.0.0.1:1")
    assert "s3cret-word" not in answer.err


DESTROYS: tuple[tuple[str, ...], ...] = (
    ("projector", "replay"),
    ("projector", "parked", "skip", "1", "--reason", "r", "--operator", "me"),
)


@pytest.mark.parametrize("words", DESTROYS, ids=" ".join)
def test_what_destroys_asks_first_and_a_no_leaves_all_as_it_is(
    cli_on_log: Cli, parked_row: None, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))

    answer = cli_on_log(*words)

    assert answer.code == 1
    assert "Go on?" in answer.err
    assert "error: nothing was done" in answer.err


@pytest.mark.parametrize("words", DESTROYS, ids=" ".join)
def test_what_destroys_says_how_to_go_on_where_nobody_can_be_asked(
    cli_on_log: Cli, parked_row: None, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))

    answer = cli_on_log(*words)

    assert answer.code == 2
    assert answer.err.splitlines()[-1].startswith("error: nothing was done")
    assert "--yes" in answer.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("row", "reason", "code", "said"),
    [("42", "r", 4, "not parked"), ("2", "r", 5, "waits behind row 1"), ("1", "", 6, "reason is empty")],
)
def test_what_cannot_be_skipped_is_refused_before_the_question(
    cli_on_log: Cli, parked_row: None, row: str, reason: str, code: int, said: str
) -> None:
    answer = cli_on_log("projector", "parked", "skip", row, "--reason", reason, "--operator", "me")

    assert answer.code == code
    assert answer.is_one_line(said)


@pytest.mark.graph
def test_ctrl_c_in_a_replay_says_that_the_graph_is_told_in_part(
    cli_on_both: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GraphWriter, "wipe", interrupt)
    answer = cli_on_both("projector", "replay", "--yes")

    assert answer.code == 130
    assert answer.is_one_line("told in part", "the projector finishes it", "retold projector replay")
    assert any(
        "a replay is unfinished" in each for each in cli_on_both("projector", "status", "--json").json["complaints"]
    )


@pytest.mark.graph
def test_every_answer_in_json_can_be_read_by_a_program(cli_on_both: Cli) -> None:
    read_only: tuple[tuple[str, ...], ...] = (
        ("migrate", "--json"),
        ("seed", "--json"),
        ("projector", "once", "--json"),
        ("projector", "replay", "--yes", "--json"),
        ("projector", "verify", "--json"),
        ("projector", "status", "--json"),
        ("projector", "parked", "list", "--json"),
        ("events", "--json"),
        ("doctor", "--json"),
    )
    answers = {words: cli_on_both(*words) for words in read_only}

    assert {words: answer.code for words, answer in answers.items()} == dict.fromkeys(read_only, 0)
    for answer in answers.values():
        assert answer.json is not None
    assert answers["projector", "verify", "--json"].json["holds"] is True
    assert answers["projector", "once", "--json"].json["projected"] > 0


@pytest.mark.graph
def test_the_tables_are_there_for_people(cli_on_both: Cli, graph: GraphEndpoint) -> None:
    for words in (("seed",), ("projector", "once"), ("projector", "verify"), ("projector", "status"), ("events",)):
        answer = cli_on_both(*words)

        assert answer.code == 0
        assert answer.out
        assert graph.password not in answer.out


def test_commands_that_cannot_be_loaded_say_so_and_the_others_work(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "tests.there_is_no_such_module:commands", main.GROUP)
    monkeypatch.setattr(main, "entry_points", lambda **_: [broken])

    assert cli("--version").code == 0
    answer = cli("broken", "run", "--fast")

    assert answer.code == 1
    assert answer.is_one_line("retold broken", "install Retold again")


def _events(database: str) -> Any:
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT count(*) FROM events").fetchone()
    assert found is not None
    return found[0]
