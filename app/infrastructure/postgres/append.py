"""The one statement that appends: it takes the streams, checks their versions, writes events and outbox rows."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import Cursor

from app.domain.errors import Conflict
from app.domain.events import Recorded, Stream
from app.infrastructure.postgres.codec import Codec, Encoded, json_text
from app.infrastructure.postgres.record import meta_facts
from app.use_cases.ports import Append, Ids

# Both statements lock or create the rows of the streams first; whoever comes second waits there, and counts on from
# the version that the first has left. `placed` has the version that each stream had before.
# One stream is what nearly every append writes: without the joins it takes two thirds of the time.
TAKE_ONE: Final = """
WITH placed AS (
    INSERT INTO streams AS s (tenant, stream, kind, version) VALUES (%s, %s, %s, %s)
    ON CONFLICT (tenant, stream) DO UPDATE SET version = s.version + excluded.version
    RETURNING 1 AS place, tenant, stream, %s::bigint AS expected, version - %s AS before
)"""
# The order in which rows are taken is the order of (tenant, name) for everyone, so that no two appends wait for each
# other: an INSERT takes the rows of its sorted SELECT one by one.
TAKE_MANY: Final = """
WITH wanted AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%s::jsonb)
        AS w (place int, tenant text, stream text, kind text, count bigint, expected bigint)
), taken AS (
    INSERT INTO streams AS s (tenant, stream, kind, version)
    SELECT tenant, stream, kind, count FROM wanted ORDER BY place
    ON CONFLICT (tenant, stream) DO UPDATE SET version = s.version + excluded.version
    RETURNING tenant, stream, version
), placed AS (
    SELECT w.place, w.tenant, w.stream, w.expected, t.version - w.count AS before
    FROM taken t JOIN wanted w ON w.tenant = t.tenant AND w.stream = t.stream
)"""
# The events are written only if every stream has the version expected of it, so that a conflict draws no position. It
# leaves new versions in `streams` and must be rolled back, as the unit of work does.
# Events come in as JSON and not as arrays: the whole append is then encoded in one go, in a third of the time.
WRITE: Final = """, written AS (
    INSERT INTO events (id, tenant, stream, version, type, schema, data, personal, subject, meta)
    SELECT e.id, p.tenant, p.stream, p.before + e.number, e.type, e.schema, e.data, e.personal, e.subject, e.meta
    FROM jsonb_to_recordset(%s::jsonb)
        AS e (turn int, place int, number bigint, id uuid, type text, schema int, data jsonb, personal jsonb,
              subject text, meta jsonb)
        JOIN placed p ON p.place = e.place
    WHERE NOT EXISTS (SELECT FROM placed WHERE expected <> before)
    ORDER BY e.turn
    RETURNING position, tenant, stream, type, recorded_at
), told AS (
    INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant)
    SELECT r.aggregate_type, w.stream, w.position, w.tenant
    FROM written w
        JOIN jsonb_to_recordset(%s::jsonb) AS r (turn int, type text, aggregate_type text) ON r.type = w.type
    ORDER BY w.position, r.turn
)
SELECT p.place, p.before, w.position, w.recorded_at
FROM placed p LEFT JOIN written w ON w.tenant = p.tenant AND w.stream = p.stream
ORDER BY w.position, p.place
"""
APPEND_ONE: Final = TAKE_ONE + WRITE
APPEND_MANY: Final = TAKE_MANY + WRITE
# A prepared statement may run on a plan made for few rows, whose nested loops are quadratic; a large append gets
# a plan of its own.
LARGE: Final = 200


New = tuple[int, int, UUID, Encoded]
"""An event to write: the place of its stream, its number within the append, its id, its columns."""

Drawn = tuple[int, int, int, datetime]
"""Of one event: the place of its stream, the version that had before, its position, its time."""


def append(cursor: Cursor[tuple[Any, ...]], codec: Codec, ids: Ids, appends: Sequence[Append]) -> Sequence[Recorded]:
    """What was stored, in the order of `appends`. Raises `Conflict`; then the transaction must be rolled back."""
    ordered = sorted(appends, key=lambda each: (each.stream.tenant, each.stream.name))
    _refuse_senseless(ordered)
    new = [(place, number, ids(), codec.encode(event)) for place, number, event in _numbered(ordered)]
    statement = APPEND_ONE if len(appends) == 1 else APPEND_MANY
    cursor.execute(statement, (*_taken(ordered), *_written(ordered, new)), prepare=len(new) < LARGE)
    drawn: list[Drawn] = cursor.fetchall()
    _refuse_lost_race(ordered, {place: before for place, before, _, _ in drawn})
    stored: dict[Stream, list[Recorded]] = {each.stream: [] for each in appends}
    for (place, number, id_, encoded), (_, before, position, recorded_at) in zip(new, drawn, strict=True):
        each = ordered[place - 1]
        event = Recorded(
            position=position,
            id=id_,
            stream=each.stream,
            version=before + number,
            type=encoded.type.name,
            schema=encoded.type.schema,
            event=each.events[number - 1],
            subject=encoded.subject,
            meta=each.meta,
            recorded_at=recorded_at,
        )
        stored[each.stream].append(event)
    return [event for of_one in stored.values() for event in of_one]


def _numbered(ordered: Sequence[Append]) -> Iterator[tuple[int, int, Any]]:
    for place, each in enumerate(ordered, 1):
        for number, event in enumerate(each.events, 1):
            yield place, number, event


def _taken(ordered: Sequence[Append]) -> tuple[object, ...]:
    if len(ordered) == 1:
        (only,) = ordered
        count = len(only.events)
        return (only.stream.tenant, only.stream.name, only.stream.kind, count, _expected(only), count)
    wanted = [
        {
            "place": place,
            "tenant": each.stream.tenant,
            "stream": each.stream.name,
            "kind": each.stream.kind,
            "count": len(each.events),
            "expected": _expected(each),
        }
        for place, each in enumerate(ordered, 1)
    ]
    return (json_text(wanted),)


def _written(ordered: Sequence[Append], new: Sequence[New]) -> tuple[str, str]:
    metas = [meta_facts(each.meta) for each in ordered]
    events = [
        {
            "turn": turn,
            "place": place,
            "number": number,
            "id": id_,
            "type": encoded.type.name,
            "schema": encoded.type.schema,
            "data": encoded.data,
            "personal": encoded.personal,
            "subject": encoded.subject,
            "meta": metas[place - 1],
        }
        for turn, (place, number, id_, encoded) in enumerate(new, 1)
    ]
    types = {encoded.type.name: encoded.type for _, _, _, encoded in new}
    routes = [
        {"turn": turn, "type": name, "aggregate_type": route}
        for name, kind in types.items()
        for turn, route in enumerate(kind.routes)
    ]
    return json_text(events), json_text(routes)


def _expected(each: Append) -> int | None:
    if each.expected == "any":
        return None
    return 0 if each.expected == "new" else each.expected


def _refuse_senseless(ordered: Sequence[Append]) -> None:
    for each in ordered:
        if not each.events:
            raise RuntimeError(f"an append to {each.stream.name} has no event; leave it out")
    if len({each.stream for each in ordered}) < len(ordered):
        raise RuntimeError("two appends to one stream in one call; make them one")


def _refuse_lost_race(ordered: Sequence[Append], befores: dict[int, int]) -> None:
    for place, each in enumerate(ordered, 1):
        expected, actual = _expected(each), befores[place]
        if expected is not None and expected != actual:
            raise Conflict(conflict(each.stream, expected, actual))


def conflict(stream: Stream, expected: int, actual: int) -> str:
    """The message of a lost race."""
    wanted = f"at version {expected}" if expected else "new"
    found = f"is at version {actual}" if actual else "does not exist"
    return f"stream {stream.name!r} of tenant {stream.tenant!r} should be {wanted} but {found}; read it again and retry"
