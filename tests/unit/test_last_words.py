"""What is told of a server that does not start: the line that says why, and not whatever came last."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from app.domain.errors import Unavailable
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.last_words import disk_full, reason
from app.infrastructure.embedded.process import ServerProcess

POSTGRES = """\
2030-01-01 00:00:00.001 UTC [81] LOG:  starting PostgreSQL 18.4 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit
2030-01-01 00:00:00.002 UTC [87] LOG:  database system was shut down at 2030-01-01 00:00:00 UTC
2030-01-01 00:00:00.003 UTC [88] FATAL:  the database system is starting up
2030-01-01 00:00:00.004 UTC [87] FATAL:  {what}
2030-01-01 00:00:00.005 UTC [81] LOG:  startup process (PID 87) exited with exit code 1
2030-01-01 00:00:00.006 UTC [89] FATAL:  the database system is shutting down
2030-01-01 00:00:00.007 UTC [81] LOG:  database system is shut down
"""
INITDB = """\
creating directory /home/postgres/draft/data ... ok
running bootstrap script ... 2030-01-01 00:00:00 UTC [91] FATAL:  could not write to file "pg_wal/temp.91": {what}
child process exited with exit code 1
initdb: removing data directory "/home/postgres/draft/data"
"""
ARCADE = """\
2030-01-01 00:00:00.001 INFO  [ArcadeDBServer] <ArcadeDB_0> Starting ArcadeDB Server in production mode
2030-01-01 00:00:00.002 SEVER [BoltNetworkExecutor] BOLT: Database 'retold' does not exist (concealed from the client)
2030-01-01 00:00:00.003 SEVER [LocalSchema] <ArcadeDB_0> Error on opening dictionary 'retold' (error=on commit)
com.arcadedb.exception.TransactionException: Transaction error on commit
\tat com.arcadedb.database.TransactionContext.commit2ndPhase(TransactionContext.java:2604)
Caused by: java.io.IOException: {what}
\tat java.base/sun.nio.ch.UnixFileDispatcherImpl.pwrite0(Native Method)
"""
NEO4J = """\
2030-01-01 00:00:00.001+0000 INFO  Starting...
2030-01-01 00:00:00.002+0000 ERROR Failed to start Neo4j on dbms.
java.lang.RuntimeException: Error starting Neo4j database server at /home/neo4j/data/databases
Caused by: java.io.IOException: {what}
2030-01-01 00:00:00.003+0000 INFO  Stopped.
"""
NO_SPACE = "No space left on device"


@pytest.mark.parametrize("output", [POSTGRES, INITDB, ARCADE, NEO4J])
def test_a_full_disk_is_seen_in_the_output_of_every_server(output: str) -> None:
    assert disk_full(output.format(what=NO_SPACE))
    assert not disk_full(output.format(what="Is a directory"))


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (POSTGRES.format(what="could not open it"), "FATAL: could not open it"),
        (INITDB.format(what="Is a directory"), 'FATAL: could not write to file "pg_wal/temp.91": Is a directory'),
        ("initdb: error: invalid locale\ninitdb: hint: see --help\n", "initdb: error: invalid locale"),
        (
            ARCADE.format(what="Is a directory"),
            "SEVER [LocalSchema] <ArcadeDB_0> Error on opening dictionary 'retold' (error=on commit)",
        ),
        (NEO4J.format(what="Is a directory"), "ERROR Failed to start Neo4j on dbms."),
        ("INFO x\nThe graph server could not be started: no Java\n", "The graph server could not be started: no Java"),
        (
            "Invalid maximum heap size: -Xmxa\nThe graph server could not be started: no VM\n",
            "Invalid maximum heap size: -Xmxa; The graph server could not be started: no VM",
        ),
        ("a ERROR one\nb\nc ERROR two\n", "ERROR one; ERROR two"),
        ("setpriv: no such user\n\n", "setpriv: no such user"),
        ("", ""),
    ],
)
def test_the_lines_that_say_why_are_preferred_to_the_last_ones(output: str, told: str) -> None:
    assert reason(output) == told


def test_what_is_told_has_an_end() -> None:
    assert len(reason(f"ERROR {'one ' * 1_000}\nERROR {'two ' * 1_000}")) <= 200


def start_to_fail(home: Path, script: str) -> str:
    process = ServerProcess(Home(home), "any")
    process.home.create()
    claim = process.claim()
    process.spawn(["sh", "-c", script], claim=claim, cwd=home, env={})
    os.close(claim)
    with pytest.raises(Unavailable) as failed:
        process.wait_until(lambda: False, timedelta(seconds=20))
    return str(failed.value)


def test_a_failed_start_tells_the_reason_of_this_start_and_names_the_log(tmp_path: Path) -> None:
    first = start_to_fail(tmp_path, f"echo 'FATAL: {NO_SPACE}'; echo 'LOG: over'")
    second = start_to_fail(tmp_path, "echo 'FATAL: it is \udcff broken'; echo 'LOG: over'")
    third = start_to_fail(tmp_path, "true")

    log = tmp_path / "log" / "any.log"
    assert first == (
        f"The disk that holds {tmp_path} is full: free some space, or set RETOLD_HOME to another disk "
        f"(the any server ended while it was starting; see {log})."
    )
    assert second == f"The any server ended while it was starting (FATAL: it is � broken): look into {log}."
    assert third == f"The any server ended while it was starting: look into {log}."
