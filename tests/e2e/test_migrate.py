"""`retold migrate`: to head, and what it says about it."""

import pytest

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
