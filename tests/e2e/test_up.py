"""`retold up`: a real process with real servers, from its start to its end, orderly or not."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from app.infrastructure.embedded.home import free_port
from app.infrastructure.graph.endpoint import GraphEndpoint
from tests.commandline import Answer, Cli, Process, eventually, process, settings_of
from tests.servers import PROJECT

READY = "Ready in"
QUICK = {"RETOLD_POLL_INTERVAL": "0.2"}


@contextmanager
def up(tmp_path: Path, *words: str, **settings: str) -> Iterator[Process]:
    environment = {"RETOLD_HOME": str(tmp_path / "home"), "RETOLD_PROJECTOR_PORT": "0", **QUICK, **settings}
    with process("up", *words, environment=environment, log=tmp_path / "said") as running:
        yield running


def retold(tmp_path: Path, *words: str, **settings: str) -> Answer:
    """A command in another terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", *words],
        env={**os.environ, "RETOLD_HOME": str(tmp_path / "home"), **settings},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def health(running: Process) -> Any:
    url = next(word for word in running.said.split() if word.endswith("/health"))
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def children(running: Process) -> list[psutil.Process]:
    return psutil.Process(running.popen.pid).children(recursive=True)


def projector_of(running: Process) -> psutil.Process:
    (found,) = [each for each in children(running) if each.cmdline()[-2:] == ["-m", "projector"]]
    return found


@pytest.mark.slow
def test_up_starts_everything_recovers_what_dies_and_ends_in_order(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        running.wait_for(READY)
        assert health(running)["status"] == "ok"
        verdict = retold(tmp_path, "projector", "verify", "--json")
        assert (verdict.code, verdict.json["holds"]) == (0, True)
        assert verdict.json["nodes"] > 0

        second = retold(tmp_path, "up")
        assert second.code == 5
        assert second.is_one_line(f"process {running.popen.pid}", "RETOLD_HOME")
        assert {each["state"] for each in retold(tmp_path, "doctor", "--json").json["checks"]} == {"ok"}

        _no_password_is_shown(tmp_path, running)

        killed = projector_of(running)
        killed.kill()
        running.wait_for("was started again")
        assert projector_of(running).pid != killed.pid
        eventually(lambda: health(running)["status"] == "ok")

        served = children(running)
        assert running.end(signal.SIGINT) == 0
        assert not [each for each in served if each.is_running()]
        assert running.said.endswith("Stopped.\n")
        assert retold(tmp_path, "events").code == 7


@pytest.mark.slow
def test_up_after_kill_9_recovers_with_the_log_as_it_was(tmp_path: Path) -> None:
    port = str(free_port())
    with up(tmp_path, RETOLD_PROJECTOR_PORT=port) as killed:
        killed.wait_for(READY)
        before = retold(tmp_path, "events", "--tail", "1000", "--json").json
        killed.end(signal.SIGKILL)

    with up(tmp_path, RETOLD_PROJECTOR_PORT=port) as running:
        running.wait_for(READY)
        assert "left alone" in running.said
        assert retold(tmp_path, "events", "--tail", "1000", "--json").json == before
        assert retold(tmp_path, "projector", "verify").code == 0
        assert running.end(signal.SIGTERM) == 0


def test_up_on_servers_of_ones_own_starts_only_the_projector(
    tmp_path: Path, database: str, empty_graph: GraphEndpoint
) -> None:
    with up(tmp_path, "--no-seed", **settings_of(database, empty_graph)) as running:
        running.wait_for(READY)
        (only,) = {each.name() for each in children(running)}

        assert only.startswith("python")
        assert "embedded" not in running.said
        with psycopg.connect(database) as connection:
            assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
        assert running.end() == 0


def test_a_proxy_for_the_outside_world_does_not_stand_between_up_and_its_projector(
    tmp_path: Path, database: str, empty_graph: GraphEndpoint
) -> None:
    with up(tmp_path, http_proxy="http://127.0.0.1:1", no_proxy="", **settings_of(database, empty_graph)) as running:
        running.wait_for(READY)


def test_a_projector_that_cannot_start_ends_it_with_the_projectors_own_words(
    tmp_path: Path, database: str, empty_graph: GraphEndpoint
) -> None:
    # Taken on another address than the one on which ports are looked at before the start.
    with socket.create_server(("127.0.0.2", 0)) as taken:
        answer = retold(
            tmp_path,
            "up",
            RETOLD_PROJECTOR_HOST="127.0.0.2",
            RETOLD_PROJECTOR_PORT=str(taken.getsockname()[1]),
            **settings_of(database, empty_graph),
        )

    assert answer.code == 7
    assert "cannot listen on 127.0.0.2" in _last_line(answer)


# The second is an address for documentation alone, which no machine has.
@pytest.mark.parametrize("host", ["300.1.1.1", "192.0.2.1", "a..b"])
def test_a_host_that_is_not_ours_is_named_with_its_setting(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("RETOLD_PROJECTOR_HOST", host)

    answer = cli("up")

    assert answer.code == 6
    assert answer.is_one_line(host, "RETOLD_PROJECTOR_HOST")
    assert "RETOLD_PROJECTOR_PORT" not in answer.err


def test_up_migrates_and_seeds_an_empty_database(
    tmp_path: Path, bare_database: str, empty_graph: GraphEndpoint
) -> None:
    with up(tmp_path, **settings_of(bare_database, empty_graph)) as running:
        running.wait_for(READY)

        assert "Migrated from nothing" in running.said
        assert retold(tmp_path, "events", "--json", **settings_of(bare_database)).json


@pytest.mark.parametrize("name", ["RETOLD_PROJECTOR_PORT", "RETOLD_POSTGRES_PORT", "RETOLD_BOLT_PORT"])
def test_a_port_in_use_is_named_with_its_setting(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        # Only what the setting is about: the other servers need not be started to see it.
        others = {"RETOLD_DATABASE_URL": "postgresql://127.0.0.1:1/x"} if name == "RETOLD_BOLT_PORT" else {}
        answer = retold(tmp_path, "up", **{"RETOLD_PROJECTOR_PORT": "0", name: port, **others})

    assert answer.code == 6
    assert _last_line(answer).startswith("error: ")
    assert name in _last_line(answer)
    assert port in _last_line(answer)


def test_a_home_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")

    answer = retold(tmp_path, "up")

    assert answer.code == 6
    assert answer.is_one_line("is not a folder")


@pytest.mark.parametrize("home", ["x" * 300, "/proc/x", "/dev/null/x"], ids=["too long", "not possible", "in a file"])
def test_a_home_that_cannot_be_made_is_a_wrong_value(cli: Cli, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("RETOLD_HOME", home)

    for words in (("up",), ("demo",)):
        answer = cli(*words)

        assert answer.code == 6
        assert answer.is_one_line("RETOLD_HOME")


def test_a_database_that_does_not_answer_ends_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "RETOLD_DATABASE_URL": "postgresql://somebody:s3cret-word@127.0.0.1:1/x",
        "RETOLD_GRAPH_URL": "bolt://127.0.0.1:1",
        "RETOLD_PROJECTOR_PORT": "0",
    }.items():
        monkeypatch.setenv(name, value)

    answer = cli("up")

    assert answer.code == 7
    assert "127.0.0.1:1" in answer.err
    assert "s3cret-word" not in answer.out + answer.err


def test_a_graph_that_does_not_answer_ends_it(cli_on_log: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOLD_GRAPH_URL", "bolt://127.0.0.1:1")
    monkeypatch.setenv("RETOLD_PROJECTOR_PORT", "0")

    answer = cli_on_log("up")

    assert answer.code == 7
    assert "bolt://127.0.0.1:1" in answer.err


def _no_password_is_shown(tmp_path: Path, running: Process) -> None:
    full = retold(tmp_path, "doctor", "--json", "--credentials").json
    secrets = {full["graph"]["password"], full["database"]["url"].split(":")[2].split("@")[0]}
    shown = running.said + " ".join(" ".join(each.cmdline()) for each in children(running))
    assert not [each for each in secrets if each in shown]


def _last_line(answer: Answer) -> str:
    assert "Traceback" not in answer.err
    return answer.err.strip().splitlines()[-1]
