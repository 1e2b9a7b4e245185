"""`retold demo`: keeps what it promises, and empties only what is its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.infrastructure.embedded.scratch import claim_scratch, empty
from tests.commandline import Cli
from tests.servers import PROJECT


@pytest.mark.slow
def test_the_demo_ends_with_a_graph_that_equals_the_log(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "demo", "--json"],
        env={**os.environ, "RETOLD_HOME": str(tmp_path)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["graph_equals_log"] is True
    assert figures["broken_promises"] == []
    assert figures["attempts"] == figures["parked"] == figures["differences"] == 0
    assert 0 < figures["pending_in_outage"] < figures["rows"] == figures["replayed_events"]
    for shown in ("kill -9", "ferry-timetable", "The graph is exactly the log"):
        assert shown in done.stderr


def test_a_folder_that_is_no_former_demo_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    mine = tmp_path / "home" / "demo" / "letter.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")

    answer = cli("demo")

    assert answer.code == 6
    assert answer.is_one_line("not a former demo")
    assert mine.read_text() == "mine"


def test_a_link_to_another_folder_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "demo").symlink_to(mine)

    assert cli("demo").is_one_line("not a former demo")
    assert list(mine.iterdir()) == []


def test_a_second_demo_on_one_home_is_refused_while_the_first_runs(cli: Cli, tmp_path: Path) -> None:
    home = claim_scratch(tmp_path / "home" / "demo")
    with home.lock():
        answer = cli("demo")

    assert answer.code == 5
    assert answer.is_one_line("in use")


def test_a_former_demo_is_emptied_and_stays_marked(tmp_path: Path) -> None:
    home = claim_scratch(tmp_path / "demo")
    (home.path / "postgres" / "data").mkdir(parents=True)
    (home.path / "servers.json").write_text("{}")

    with home.lock():
        empty(home)

    assert not (home.path / "postgres").exists()
    assert not (home.path / "servers.json").exists()
    assert claim_scratch(tmp_path / "demo").path == home.path
