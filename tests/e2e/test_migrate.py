"""`retold migrate`: to head, and what it says about it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from app.cli.migrate import bring_to_head
from app.infrastructure.postgres.engine import connect
from tests.commandline import Cli


@pytest.fixture
def cli_on_bare(cli: Cli, bare_database: str, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("RETOLD_DATABASE_URL", bare_database)
    return cli


def test_migrating_says_from_where_to_where_and_twice_changes_nothing(cli_on_bare: Cli) -> None:
    first, second = cli_on_bare("migrate", "--json"), cli_on_bare("migrate", "--json")

    assert (first.code, second.code) == (0, 0)
    assert first.json["from"] is None
    assert first.json["to"] == first.json["head"] == second.json["from"] == second.json["to"]


def test_a_check_changes_nothing_and_tells_whether_there_is_something_to_do(cli_on_bare: Cli) -> None:
    behind = cli_on_bare("migrate", "--check")
    assert behind.code == 1
    assert "retold migrate" in behind.out
    assert cli_on_bare("migrate", "--check", "--json").json["to"] is None

    cli_on_bare("migrate")

    assert cli_on_bare("migrate", "--check").code == 0


@pytest.mark.parametrize(
    "words", [("migrate",), ("migrate", "--check"), ("migrate", "--check", "--json")], ids=" ".join
)
def test_a_database_that_is_newer_asks_for_a_newer_retold(
    cli_on_log: Cli, database: str, words: tuple[str, ...]
) -> None:
    with connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    answer = cli_on_log(*words)

    assert answer.code == 6
    assert answer.is_one_line("newer than this Retold", "'9999'", "upgrade Retold")


def test_of_two_that_migrate_at_once_one_says_that_it_did(bare_database: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        said = [each.line for each in pool.map(bring_to_head, [bare_database] * 2)]

    assert sorted(line.split()[0] for line in said) == ["Migrated", "The"]
