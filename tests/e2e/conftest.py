"""The command line, at the servers of the run or at none."""

from pathlib import Path

import pytest

from app.infrastructure.graph.endpoint import GraphEndpoint
from tests.commandline import Cli, cli_in_this_process, settings_of


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """`retold` in a home of this test's own, where no server runs."""
    monkeypatch.setenv("RETOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "160")
    return cli_in_this_process(monkeypatch, capsys)


@pytest.fixture
def cli_on_log(cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`retold` with an empty, migrated log."""
    for name, value in settings_of(database).items():
        monkeypatch.setenv(name, value)
    return cli


@pytest.fixture
def cli_on_both(cli_on_log: Cli, empty_graph: GraphEndpoint, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`retold` with an empty log and an empty graph."""
    for name, value in settings_of(graph=empty_graph).items():
        monkeypatch.setenv(name, value)
    return cli_on_log
