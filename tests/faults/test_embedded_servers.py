"""The embedded servers under kill -9, of themselves and of their parent: what was acknowledged is kept."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import neo4j
import psutil
import psycopg
import pytest
from neo4j.exceptions import DriverError, Neo4jError

from app.infrastructure.embedded.bolt import answers
from app.infrastructure.embedded.graph import EmbeddedGraph
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.postgres import EmbeddedPostgres
from app.infrastructure.embedded.postgres_user import server_user
from app.infrastructure.embedded.servers import start_embedded
from app.infrastructure.embedded.supervisor import ProcessChild, Supervisor
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.settings import Settings
from tests.servers import GraphServer

PARENT = """
import sys, time
from pathlib import Path
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.servers import start_embedded
from app.settings import Settings
settings = Settings(home=Path(sys.argv[1]))
with Home(settings.home).lock(), start_embedded(settings) as servers:
    print(*(server.pid for server in servers), flush=True)
    time.sleep(600)
"""
WRITES_BEFORE_A_KILL = 30


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path / "home")
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Writer:
    """Writes 1, 2, 3 … from a thread until the server goes away, and keeps what was acknowledged."""

    def __init__(self, write: Callable[[int], None], first: int) -> None:
        self.acknowledged: list[int] = []
        self._write = write
        self._first = first
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        assert self._enough.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = self._first
        with contextlib.suppress(psycopg.Error, DriverError, Neo4jError, OSError):
            while True:
                self._write(number)
                self.acknowledged.append(number)
                number += 1
                if len(self.acknowledged) == WRITES_BEFORE_A_KILL:
                    self._enough.set()


def test_postgres_keeps_every_acknowledged_commit_through_kill_9(postgres: EmbeddedPostgres) -> None:
    url = postgres.url
    acknowledged: list[int] = []
    with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("CREATE TABLE written (n int PRIMARY KEY)")

    for kill in range(3):
        with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
            write = _insert_with(connection)
            with Writer(write, first=kill * 1_000_000) as writer:
                postgres.kill()
        acknowledged += writer.acknowledged
        postgres.start()

    assert postgres.url == url
    with contextlib.closing(psycopg.connect(url)) as connection:
        kept = {row[0] for row in connection.execute("SELECT n FROM written")}
    assert kept >= set(acknowledged)


def _insert_with(connection: "psycopg.Connection[tuple[object, ...]]") -> Callable[[int], None]:
    return lambda number: _ignore(connection.execute("INSERT INTO written VALUES (%s)", (number,)))


@pytest.mark.graph
def test_the_graph_keeps_every_acknowledged_commit_through_kill_9(faulty_graph: Callable[[], GraphServer]) -> None:
    server = faulty_graph()
    endpoint = server.endpoint
    acknowledged: list[int] = []

    for kill in range(3):
        with _driver(endpoint) as driver, driver.session(database=endpoint.database) as session:
            write = _create_with(session)
            with Writer(write, first=kill * 1_000_000) as writer:
                server.kill()
        acknowledged += writer.acknowledged
        server.start()

    assert server.endpoint == endpoint
    with _driver(endpoint) as driver:
        records = driver.execute_query("MATCH (w:Written) RETURN w.n", database_=endpoint.database).records
    assert {record[0] for record in records} >= set(acknowledged)


def _create_with(session: neo4j.Session) -> Callable[[int], None]:
    return lambda number: _ignore(session.run("CREATE (:Written {n: $n})", n=number).consume())


def _ignore(_: object) -> None:
    """A write that came back is enough."""


@pytest.mark.graph
def test_a_frozen_graph_is_silent_and_goes_on_where_it_was(faulty_graph: Callable[[], GraphServer]) -> None:
    server = faulty_graph()

    server.pause()
    assert not answers(server.endpoint)
    server.resume()

    assert _within(20, lambda: answers(server.endpoint))


@pytest.fixture
def parent(tmp_path: Path) -> Iterator["tuple[subprocess.Popen[str], list[int]]"]:
    """A process like `retold up` on `tmp_path/home`, and the pids of its servers."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "home")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, [int(pid) for pid in process.stdout.readline().split()]
        process.kill()


def test_servers_do_not_outlive_a_parent_that_was_killed(
    tmp_path: Path, parent: "tuple[subprocess.Popen[str], list[int]]"
) -> None:
    process, pids = parent
    assert len(pids) == 2

    process.kill()
    process.wait()

    assert _within(20, lambda: not any(_lives(pid) for pid in pids))
    assert Home(tmp_path / "home").running("postgres") is None
    _start_again(tmp_path / "home")


def test_servers_that_were_left_behind_are_ended_by_the_next_start(
    tmp_path: Path, parent: "tuple[subprocess.Popen[str], list[int]]"
) -> None:
    process, pids = parent
    # Frozen, they can hear neither the death of their parent nor a request to stop.
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    process.wait()

    _start_again(tmp_path / "home")

    assert not any(_lives(pid) for pid in pids)


def _start_again(home: Path) -> None:
    settings = Settings(home=home)
    with Home(home).lock(), start_embedded(settings) as servers:
        assert [server.alive() for server in servers] == [True, True]
        assert Home(home).running("graph") is not None
    assert not (home / "servers.json").exists()


def test_a_pid_that_was_given_to_another_process_does_not_block_postgres(postgres: EmbeddedPostgres) -> None:
    postgres.kill()
    folder = postgres.home.path / "postgres"
    user = server_user(folder, folder / "data", Path(sys.executable))
    with subprocess.Popen([*user.prefix, "sleep", "600"]) as stranger:
        pid_file = folder / "data" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")

        postgres.start()

        assert stranger.poll() is None
        stranger.kill()


def test_a_postgres_that_somebody_started_by_hand_on_our_data_is_stopped_first(postgres: EmbeddedPostgres) -> None:
    assert postgres.pid is not None
    command, uid = psutil.Process(postgres.pid).cmdline(), psutil.Process(postgres.pid).uids().real
    postgres.stop()
    folder = postgres.home.path / "postgres"
    user = server_user(folder, folder / "data", Path(command[0]))
    with subprocess.Popen([*user.prefix, *command], cwd="/", stderr=subprocess.DEVNULL) as stranger:
        assert _within(20, (folder / "data" / "postmaster.pid").exists)

        postgres.start()

        assert stranger.wait(20) == 0
    assert uid == user.uid


@pytest.mark.parametrize("pid", ["", "\n", "not a pid\n"])
def test_a_torn_pid_file_of_our_own_blocks_nothing(postgres: EmbeddedPostgres, pid: str) -> None:
    postgres.kill()
    (postgres.home.path / "run" / "postgres.pid").write_text(pid)

    postgres.start()


def test_the_supervisor_brings_both_servers_back_under_their_addresses(tmp_path: Path) -> None:
    database, graph = EmbeddedPostgres(tmp_path), EmbeddedGraph(tmp_path)
    supervisor = Supervisor([database, graph], report=lambda *_: None)
    with supervisor.running():
        addresses = database.url, graph.url
        for pid in (database.pid, graph.pid):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        assert _within(10, lambda: not database.alive() and not graph.alive())

        assert supervisor.run_once() == ("postgres", "graph")

        assert (database.url, graph.url) == addresses
        psycopg.connect(database.url).close()
        assert answers(graph.endpoint)
    assert not database.alive()
    assert not graph.alive()


def test_a_child_process_is_stopped_and_its_output_kept(tmp_path: Path) -> None:
    child = ProcessChild("echo", [sys.executable, "-uc", "print('here'); input()"], log_path=tmp_path / "echo.log")
    child.start()
    try:
        assert _within(20, lambda: "EOFError" in (tmp_path / "echo.log").read_text())
        assert _within(20, lambda: not child.alive())
        assert (tmp_path / "echo.log").read_text().startswith("here\n")
    finally:
        child.stop()


@pytest.mark.parametrize("size", ["8m", "24m", "40m"])
def test_a_full_disk_is_named_when_the_database_is_made(tmp_path: Path, size: str) -> None:
    small = tmp_path / "small"
    small.mkdir()
    code = (
        "import subprocess, sys; from pathlib import Path; from app.domain.errors import Unavailable\n"
        "from app.infrastructure.embedded.postgres import EmbeddedPostgres\n"
        f"subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size={size}', 'tmpfs', {str(small)!r}], check=True)\n"
        f"server = EmbeddedPostgres(Path({str(small / 'home')!r}))\n"
        "try: server.start()\n"
        "except Unavailable as error: sys.exit(0 if 'The disk that holds' in str(error) else str(error))\n"
        "sys.exit('it was started')"
    )
    _run_with_mounts_of_its_own(code)


def test_a_disk_that_has_become_full_is_named_at_the_next_start(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    code = (
        "import shutil, subprocess, sys; from pathlib import Path; from app.domain.errors import Unavailable\n"
        "from app.infrastructure.embedded.postgres import EmbeddedPostgres\n"
        f"small = Path({str(small)!r})\n"
        "subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=60m', 'tmpfs', str(small)], check=True)\n"
        "server = EmbeddedPostgres(small / 'home')\n"
        "server.start(); server.stop()\n"
        "(small / 'filler').write_bytes(bytes(shutil.disk_usage(small).free - 8_000_000))\n"
        "try: server.start()\n"
        "except Unavailable as error: sys.exit(0 if 'The disk that holds' in str(error) else str(error))\n"
        "sys.exit('it was started')"
    )
    _run_with_mounts_of_its_own(code)


def _run_with_mounts_of_its_own(code: str) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("only root may mount a small disk")
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _driver(endpoint: GraphEndpoint) -> neo4j.Driver:
    return neo4j.GraphDatabase.driver(endpoint.url, auth=(endpoint.user, endpoint.password))


def _lives(pid: int) -> bool:
    # A container without an init process keeps the dead of killed parents in its list.
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def _within(seconds: float, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not (done := true()) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    return done
