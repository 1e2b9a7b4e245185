"""Appending through a unit of work, beside the same rows written by hand."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import psycopg

from app.domain import session
from app.domain.events import Stream
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.engine import connect
from app.use_cases.ports import Append, Begin
from benchmarks.figure import Figure, Work, compare

APPEND_GOAL: Final = 0.8
COPY_GOAL: Final = 0.6
EVENTS: Final = 100

OFFERED: Final = session.HandoffOffered(
    from_agent="assistant", to_agent="ux_designer", project="atlas", user="user-1", reason="Asks for a design."
)
FACTS: Final = {"from_agent": "assistant", "to_agent": "ux_designer", "project": "atlas", "user": "user-1"}
PERSONAL: Final = {"reason": "Asks for a design."}

# What somebody would write who needs exactly these rows: no codec, no expected version, no other streams.
BY_HAND: Final = """
WITH taken AS (
    INSERT INTO streams AS s (tenant, stream, kind, version) VALUES (%(tenant)s, %(stream)s, 'session', 1)
    ON CONFLICT (tenant, stream) DO UPDATE SET version = s.version + 1
    RETURNING version
), written AS (
    INSERT INTO events (id, tenant, stream, version, type, schema, data, personal, subject, meta)
    SELECT %(id)s, %(tenant)s, %(stream)s, version, 'session.handoff_offered', 1, %(data)s::jsonb, %(personal)s::jsonb,
           'user-1', %(meta)s::jsonb
    FROM taken
    RETURNING position
)
INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant)
SELECT aggregate_type, %(stream)s, position, %(tenant)s
FROM written, (VALUES ('session'), ('graph_projection')) AS r (aggregate_type)
"""

numbers = count()


def one_append(begin: Begin, url: str, *, appends: int, repetitions: int, on_repetition: Callable[[], None]) -> Figure:
    """One event with its two outbox rows in a transaction of its own, one client."""
    with psycopg.Connection.connect(url) as connection:
        return compare(
            "append one event with its rows",
            ours=Work(lambda: _ours(begin, appends, 1)),
            by_hand=Work(lambda: _by_hand(connection, appends)),
            unit="appends/s",
            against="the same rows in one statement and one commit with psycopg",
            goal=APPEND_GOAL,
            repetitions=repetitions,
            on_repetition=on_repetition,
        )


def hundred_appends(
    begin: Begin, url: str, *, appends: int, repetitions: int, on_repetition: Callable[[], None]
) -> Figure:
    """A hundred events with their two hundred outbox rows in one transaction."""
    with connect(url) as connection:
        return compare(
            f"append {EVENTS} events in one transaction",
            ours=Work(lambda: _ours(begin, appends, EVENTS)),
            by_hand=Work(lambda: _copied(connection, appends)),
            unit="events/s",
            against="the same rows by COPY",
            goal=COPY_GOAL,
            repetitions=repetitions,
            on_repetition=on_repetition,
        )


def _ours(begin: Begin, appends: int, events: int) -> int:
    for _ in range(appends):
        with begin() as work:
            work.append(Append(Stream("bench", "session", f"ours-{next(numbers)}"), (OFFERED,) * events, "any"))
    return appends * events


def _by_hand(connection: psycopg.Connection[Any], appends: int) -> int:
    for _ in range(appends):
        connection.execute(
            BY_HAND,
            {
                "id": uuid7(),
                "tenant": "bench",
                "stream": f"session-hand-{next(numbers)}",
                "data": json.dumps(FACTS),
                "personal": json.dumps(PERSONAL),
                "meta": json.dumps({"actor": "system"}),
            },
        )
        connection.commit()
    return appends


def _copied(connection: psycopg.Connection[Any], appends: int) -> int:
    for _ in range(appends):
        stream = f"session-copy-{next(numbers)}"
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("INSERT INTO streams VALUES ('bench', %s, 'session', %s)", (stream, EVENTS))
            # COPY gives no positions back: they are drawn first, as whoever does this by hand has to.
            positions = _positions(cursor)
            _copy_events(cursor, stream, positions)
            _copy_outbox(cursor, stream, positions)
    return appends * EVENTS


def _positions(cursor: psycopg.Cursor[Any]) -> list[int]:
    cursor.execute(
        "SELECT nextval(pg_get_serial_sequence('events', 'position')) FROM generate_series(1, %s)", (EVENTS,)
    )
    return [position for (position,) in cursor.fetchall()]


def _copy_events(cursor: psycopg.Cursor[Any], stream: str, positions: list[int]) -> None:
    columns = "position, id, tenant, stream, version, type, schema, data, personal, subject, meta"
    with cursor.copy(f"COPY events ({columns}) FROM STDIN") as copy:
        for version, position in enumerate(positions, 1):
            copy.write_row(
                (
                    position,
                    uuid7(),
                    "bench",
                    stream,
                    version,
                    "session.handoff_offered",
                    1,
                    json.dumps(FACTS),
                    json.dumps(PERSONAL),
                    "user-1",
                    json.dumps({"actor": "system"}),
                )
            )


def _copy_outbox(cursor: psycopg.Cursor[Any], stream: str, positions: list[int]) -> None:
    with cursor.copy("COPY outbox (aggregate_type, aggregate_id, event_position, tenant) FROM STDIN") as copy:
        for position in positions:
            for aggregate_type in ("session", "graph_projection"):
                copy.write_row((aggregate_type, stream, position, "bench"))
