"""Appending to PostgreSQL under load: order, locks, numbers that are not burned, sizes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import psycopg
import pytest
from sqlalchemy import Engine

from app.domain import session
from app.domain.errors import Conflict
from app.domain.events import Recorded, Stream
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.append import APPEND_MANY
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import connect, make_engine
from app.infrastructure.postgres.hint import no_hint
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from app.use_cases.ports import Append

OPENED = session.SessionOpened(user="user-1", project="retold", agent="assistant")
SAID = session.MessageAccepted(message="m1", user="user-1", text="Hello")
OFFERED = session.HandoffOffered(from_agent="a", to_agent="b", project="retold", user="user-1", reason="why not")


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = make_engine(database)
    yield engine
    engine.dispose()


@pytest.fixture
def begin(engine: Engine) -> PostgresBegin:
    return PostgresBegin(engine, Codec(), uuid7, no_hint)


def stream(name: str) -> Stream:
    return session.stream("acme", name)


def say(begin: PostgresBegin, *streams: Stream, count: int = 1) -> list[Recorded]:
    with begin() as work:
        return list(work.append(*(Append(each, (SAID,) * count, "any") for each in streams)))


def test_g01_twenty_threads_on_one_stream_leave_no_gap(begin: PostgresBegin) -> None:
    with ThreadPoolExecutor(20) as pool:
        stored = list(chain.from_iterable(pool.map(lambda _: say(begin, stream("1"), count=5), range(100))))

    assert sorted(each.version for each in stored) == list(range(1, 501))
    # Whoever comes second in the stream is second in the log.
    by_version = sorted(stored, key=lambda each: each.version)
    assert [each.position for each in by_version] == sorted(each.position for each in stored)


def test_of_twenty_threads_with_the_same_expected_version_one_wins(begin: PostgresBegin) -> None:
    def race(_: int) -> str:
        try:
            with begin() as work:
                work.append(Append(stream("1"), (OPENED,), "new"))
        except Conflict:
            return "lost"
        return "won"

    with ThreadPoolExecutor(20) as pool:
        assert sorted(pool.map(race, range(20))) == ["lost"] * 19 + ["won"]
    (next_one,) = say(begin, stream("1"))
    assert (next_one.position, next_one.version) == (2, 2)


def test_appends_to_the_same_streams_in_opposite_order_never_deadlock(begin: PostgresBegin) -> None:
    names = [stream(f"s{number}") for number in range(8)]

    def many(order: int) -> int:
        chosen = names if order % 2 else names[::-1]
        return sum(len(say(begin, *chosen)) for _ in range(40))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(many, range(8))) == 8 * 40 * 8
    assert {each.version for each in say(begin, *names)} == {8 * 40 + 1}


def test_rows_of_streams_are_taken_in_the_sorted_order_of_the_select(database: str) -> None:
    with connect(database) as connection:
        plan = connection.execute(f"EXPLAIN (COSTS OFF) {APPEND_MANY}", ("[]", "[]", "[]")).fetchall()

    lines = [line.strip() for (line,) in plan]
    insert = next(number for number, line in enumerate(lines) if "Insert on streams" in line)
    below = [line for line in lines[insert + 1 :] if line.startswith("->")]
    # PostgreSQL 18 shows the SELECT as a step of its own, which keeps the order of the one below.
    assert "->  Sort" in below[:2]
    assert "Sort Key: wanted.place" in lines


def test_load_keeps_others_from_appending(begin: PostgresBegin) -> None:
    say(begin, stream("1"))
    loaded, stored = threading.Event(), []

    def other() -> None:
        loaded.wait(10)
        stored.extend(say(begin, stream("1")))

    thread = threading.Thread(target=other)
    thread.start()
    with begin() as work:
        history = work.load(stream("1"))
        loaded.set()
        thread.join(0.3)
        assert thread.is_alive()
        (mine,) = work.append(Append(stream("1"), (SAID,), len(history)))
    thread.join(10)

    assert (mine.version, stored[0].version) == (2, 3)


def test_load_sees_what_was_committed_while_it_waited_for_the_lock(begin: PostgresBegin, database: str) -> None:
    say(begin, stream("1"))
    seen: list[int] = []

    def other() -> None:
        with begin() as work:
            seen.append(len(work.load(stream("1"))))

    thread = threading.Thread(target=other)
    with begin() as work:
        work.append(Append(stream("1"), (SAID,), "any"))
        thread.start()
        _wait_until_someone_waits(database)
    thread.join(10)

    assert seen == [2]


def test_g02_a_conflict_burns_no_position_and_no_outbox_id(begin: PostgresBegin, database: str) -> None:
    say(begin, stream("1"))
    for _ in range(5):
        with pytest.raises(Conflict), begin() as work:
            work.append(Append(stream("1"), (OPENED,) * 3, "new"), Append(stream("2"), (OPENED,), "new"))
    say(begin, stream("1"))

    with connect(database) as connection:
        assert connection.execute("SELECT array_agg(position ORDER BY position) FROM events").fetchone() == ([1, 2],)
        assert connection.execute("SELECT array_agg(id ORDER BY id) FROM outbox").fetchone() == ([1, 2],)
        assert connection.execute("SELECT count(*) FROM streams").fetchone() == (1,)


def test_outbox_ids_follow_the_order_of_each_stream(begin: PostgresBegin, database: str) -> None:
    with begin() as work:
        work.append(*(Append(stream(f"s{number}"), (OPENED, OFFERED) * 50, "any") for number in range(5)))

    with connect(database) as connection:
        rows = connection.execute("SELECT aggregate_id, event_position FROM outbox ORDER BY id").fetchall()
    assert len(rows) == 5 * 150
    assert [position for _, position in rows] == sorted(position for _, position in rows)


@pytest.mark.parametrize("streams", [1, 10_000])
def test_ten_thousand_events_in_one_append(begin: PostgresBegin, streams: int) -> None:
    # The plan of a prepared statement, made for few rows, must not be used for many.
    for _ in range(10):
        say(begin, stream("a"), stream("b"))

    stored = say(begin, *(stream(f"n{number}") for number in range(streams)), count=10_000 // streams)

    assert len({each.position for each in stored}) == 10_000
    assert {each.version for each in stored} == set(range(1, 10_000 // streams + 1))


def test_a_deadlock_is_a_conflict(begin: PostgresBegin) -> None:
    say(begin, stream("a"), stream("b"))
    both = threading.Barrier(2)

    def cross(first: str, second: str) -> str:
        try:
            with begin() as work:
                work.load(stream(first))
                both.wait(10)
                work.load(stream(second))
        except Conflict as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(2) as pool:
        results = sorted(pool.map(cross, "ab", "ba"))
    assert results == ["done", "two transactions waited for each other; read again and retry"]


def test_g11_a_row_of_a_type_without_consumer_is_refused(database: str) -> None:
    with connect(database) as connection, pytest.raises(psycopg.errors.CheckViolation, match="aggregate_type"):
        connection.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant) VALUES ('mail', 's', 1, 't')"
        )


def test_t33_a_nul_character_is_refused_also_here(begin: PostgresBegin) -> None:
    with pytest.raises(Exception, match="NUL"), begin() as work:
        work.append(Append(stream("1"), (session.MessageAccepted(message="m", user="u", text="a\x00b"),), "any"))


def _wait_until_someone_waits(database: str) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with connect(database) as connection:
        for _ in range(1000):
            if connection.execute(waiting).fetchone() != (0,):
                return
            connection.execute("SELECT pg_sleep(0.01)")
    raise AssertionError("nobody waited for the lock")
