"""The database itself refuses to change the past; only personal words may be erased."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from app.domain import session
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import connect, make_engine
from app.infrastructure.postgres.hint import no_hint
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from app.use_cases.ports import Append


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """To a log with one message in it."""
    engine = make_engine(database)
    said = session.MessageAccepted(message="m1", user="user-1", text="Hello")
    with PostgresBegin(engine, Codec(), uuid7, no_hint)() as work:
        work.append(Append(session.stream("acme", "42"), (said,), "new"))
    engine.dispose()
    with connect(database) as connection:
        yield connection


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events",
        "TRUNCATE events",
        "TRUNCATE streams, events",
        "UPDATE events SET version = 2",
        "UPDATE events SET tenant = 'umbrella'",
        "UPDATE events SET data = '{}'",
        "UPDATE events SET recorded_at = recorded_at + interval '1 s'",
        "UPDATE events SET subject = NULL",
        """UPDATE events SET personal = '{"text": "Bye"}'""",
        "UPDATE events SET personal = NULL, type = 'session.opened'",
    ],
)
def test_the_past_cannot_be_changed(connection: psycopg.Connection[tuple[Any, ...]], statement: str) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
        connection.execute(statement.encode())

    assert connection.execute("SELECT personal FROM events").fetchall() == [({"text": "Hello"},)]


def test_x18_what_is_personal_can_be_erased_and_not_written_again(
    connection: psycopg.Connection[tuple[Any, ...]],
) -> None:
    for _ in range(2):
        connection.execute("UPDATE events SET personal = NULL")
    with pytest.raises(psycopg.errors.RestrictViolation):
        connection.execute("""UPDATE events SET personal = '{"text": "Hello"}'""")

    assert connection.execute("SELECT personal, data FROM events").fetchall() == [
        (None, {"message": "m1", "user": "user-1"})
    ]


def test_positions_are_drawn_by_the_database_alone(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    with pytest.raises(psycopg.errors.GeneratedAlways):
        connection.execute(
            "INSERT INTO events (position, id, tenant, stream, version, type, schema, data, meta)"
            " VALUES (1, gen_random_uuid(), 't', 's', 1, 'x', 1, '{}', '{}')"
        )


def test_every_constraint_has_a_name_of_ours(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    named = """
        SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
        AND conrelid <> 'alembic_version'::regclass ORDER BY conname
    """
    assert [name for (name,) in connection.execute(named)] == [
        "ck_events_data",
        "ck_events_personal",
        "ck_events_schema",
        "ck_events_version",
        "ck_outbox_aggregate_type",
        "ck_outbox_attempts",
        "ck_outbox_behind",
        "ck_streams_kind",
        "ck_streams_version",
        "pk_events",
        "pk_outbox",
        "pk_projections",
        "pk_streams",
        "uq_events_id",
        "uq_events_tenant_stream_version",
    ]
