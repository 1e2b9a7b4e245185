"""Reading the log: pages, filters, flat memory, one moment for as long as it takes."""

import tracemalloc
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from app.domain import session, template
from app.domain.events import Stream, Unknown
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import connect, make_engine
from app.infrastructure.postgres.hint import no_hint
from app.infrastructure.postgres.log import READ, STREAM, PostgresLog
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from app.use_cases.ports import Append

SESSION = session.stream("acme", "42")
THEIRS = session.stream("umbrella", "42")
OPENED = session.SessionOpened(user="user-1", project="retold", agent="assistant")
SAID = session.MessageAccepted(message="m1", user="user-1", text="Hello")


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = make_engine(database)
    yield engine
    engine.dispose()


@pytest.fixture
def log(engine: Engine) -> PostgresLog:
    return PostgresLog(engine, Codec(), page=3)


def append(engine: Engine, stream: Stream, *events: object) -> None:
    with PostgresBegin(engine, Codec(), uuid7, no_hint)() as work:
        work.append(Append(stream, events, "any"))


def test_an_empty_log_has_head_0_and_no_event(log: PostgresLog) -> None:
    assert log.head() == 0
    assert list(log.read()) == []
    assert list(log.stream(SESSION)) == []


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 7])
def test_pages_have_no_seams(engine: Engine, log: PostgresLog, count: int) -> None:
    append(engine, SESSION, *[SAID] * count)

    assert [each.position for each in log.read()] == list(range(1, count + 1))
    assert [each.version for each in log.stream(SESSION)] == list(range(1, count + 1))
    assert log.head() == count


def test_reading_goes_on_after_a_position_and_ends_at_one(engine: Engine, log: PostgresLog) -> None:
    append(engine, SESSION, *[SAID] * 20)

    assert [each.position for each in log.read(after=4, until=9)] == [5, 6, 7, 8, 9]
    assert [each.position for each in log.read(after=19)] == [20]
    assert list(log.read(after=20)) == list(log.read(until=0)) == []
    assert [each.version for each in log.stream(SESSION, after=18)] == [19, 20]


def test_reading_by_tenant_and_by_type(engine: Engine, log: PostgresLog) -> None:
    for _ in range(5):
        append(engine, SESSION, OPENED, SAID)
        append(engine, THEIRS, SAID)
        append(engine, template.stream("acme", "kickoff"), template.TemplateActivated(number=1))

    assert {each.stream for each in log.read(tenant="umbrella")} == {THEIRS}
    assert len(list(log.read(tenant="umbrella"))) == 5
    assert len(list(log.read(types=["session.opened", "template.activated"]))) == 10
    assert len(list(log.read(tenant="acme", types=["session.message_accepted"]))) == 5
    assert list(log.read(tenant="acme", types=["no.such"])) == []


def test_an_event_of_an_unknown_type_does_not_stop_the_reader(engine: Engine, log: PostgresLog, database: str) -> None:
    append(engine, SESSION, OPENED)
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO events (id, tenant, stream, version, type, schema, data, meta)"
            """ VALUES (gen_random_uuid(), 'acme', 'robot-1', 1, 'robot.awoke', 4, '{"at": 7}', '{}')"""
        )

    _, unknown = log.read()

    assert (unknown.type, unknown.schema, unknown.event) == ("robot.awoke", 4, Unknown({"at": 7}))
    assert unknown.stream == Stream("acme", "robot", "1")


def test_x11_a_reader_that_comes_back_gets_every_event_once(engine: Engine, log: PostgresLog) -> None:
    append(engine, SESSION, *[SAID] * 10)
    seen = []
    for each in log.read():
        seen.append(each.position)
        if len(seen) == 4:
            break

    seen.extend(each.position for each in log.read(after=seen[-1]))

    assert seen == list(range(1, 11))


def test_memory_stays_flat_however_long_the_log(engine: Engine) -> None:
    for _ in range(10):
        append(engine, SESSION, *[SAID] * 2_000)
    log = PostgresLog(engine, Codec(), page=500)
    next(log.read())

    tracemalloc.start()
    assert sum(1 for _ in log.read()) == 20_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 * 2**20


def test_no_connection_is_held_between_pages(engine: Engine, log: PostgresLog) -> None:
    append(engine, SESSION, *[SAID] * 10)
    events = log.read()
    next(events)

    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]


def test_a_snapshot_is_one_moment_for_every_query_on_its_connection(engine: Engine, log: PostgresLog) -> None:
    append(engine, SESSION, *[SAID] * 5)

    with log.snapshot() as snapshot:
        events = snapshot.read()
        next(events)
        append(engine, SESSION, *[SAID] * 5)
        assert len(list(events)) == 4
        assert snapshot.head() == 5
        assert len(list(snapshot.stream(SESSION))) == 5
        assert snapshot.connection.execute("SELECT count(*) FROM outbox").fetchone() == (5,)

    assert log.head() == 10
    append(engine, SESSION, SAID)


def test_a_snapshot_cannot_write(engine: Engine, log: PostgresLog) -> None:
    with pytest.raises(Exception, match="read-only"), log.snapshot() as snapshot:
        snapshot.connection.execute("DELETE FROM outbox")


def test_pages_walk_an_index(engine: Engine, database: str) -> None:
    append(engine, SESSION, *[SAID] * 3_000)
    asked = {
        "after": 1_000, "until": 2_000, "tenant": None, "types": None, "page": 100, "stream": "session-42",
    }  # fmt: skip
    with connect(database) as connection:
        connection.execute("ANALYZE events")
        for query, index in ((READ, "pk_events"), (STREAM, "uq_events_tenant_stream_version")):
            values = asked if query == READ else {**asked, "tenant": "acme"}
            plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {query}", values))
            assert f"Index Scan using {index}" in plan
