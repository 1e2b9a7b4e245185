"""The one statement that appends: it takes the streams, checks their versions, writes events and outbox rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import Cursor

from app.domain.errors import Conflict
from app.domain.events import Recorded, Stream
from app.infrastructure.postgres.codec import Codec, Encoded
from app.infrastructure.postgres.record import meta_json
from app.use_cases.ports import Append, Ids

# wanted   what is asked of each stream, in the order of (tenant, name)
# taken    locks or creates their rows in that order, so that two appends never wait for each other; whoever comes
#          second waits here and then counts on from the version that the first has left
# placed   the version each stream had before
# written  the events, only if every stream had the version expected of it: a conflict draws no position
# A conflict leaves the new versions in `streams`: it must be rolled back, and the unit of work does.
APPEND: Final = """
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
        WITH ORDINALITY AS w (tenant, stream, kind, expected, count, place)
), taken AS (
    INSERT INTO streams AS s (tenant, stream, kind, version)
    SELECT tenant, stream, kind, count FROM wanted ORDER BY place
    ON CONFLICT (tenant, stream) DO UPDATE SET version = s.version + excluded.version
    RETURNING tenant, stream, version
), placed AS MATERIALIZED (
    SELECT w.place, w.tenant, w.stream, w.expected, t.version - w.count AS before
    FROM taken t JOIN wanted w ON w.tenant = t.tenant AND w.stream = t.stream
), written AS (
    INSERT INTO events (id, tenant, stream, version, type, schema, data, personal, subject, meta)
    SELECT e.id, p.tenant, p.stream, p.before + e.number, e.type, e.schema, e.data, e.personal, e.subject, e.meta
    FROM unnest(
            %s::bigint[], %s::bigint[], %s::uuid[], %s::text[], %s::int[], %s::jsonb[], %s::jsonb[], %s::text[],
            %s::jsonb[]
        ) WITH ORDINALITY AS e (place, number, id, type, schema, data, personal, subject, meta, turn)
        JOIN placed p ON p.place = e.place
    WHERE (SELECT bool_and(expected IS NULL OR expected = before) FROM placed)
    ORDER BY e.turn
    RETURNING position, tenant, stream, version, type, recorded_at
), told AS (
    INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant)
    SELECT r.aggregate_type, w.stream, w.position, w.tenant
    FROM written w
        JOIN unnest(%s::text[], %s::text[]) WITH ORDINALITY AS r (type, aggregate_type, turn) ON r.type = w.type
    ORDER BY w.position, r.turn
)
SELECT p.place, p.before, w.position, w.recorded_at
FROM placed p LEFT JOIN written w ON w.tenant = p.tenant AND w.stream = p.stream
ORDER BY w.position, p.place
"""
# A prepared statement may run on a plan made for few rows, whose nested loops are quadratic; a large append gets
# a plan of its own.
LARGE: Final = 200


@dataclass(frozen=True, slots=True)
class _New:
    place: int
    number: int
    id: UUID
    encoded: Encoded
    meta: str


def append(cursor: Cursor[tuple[Any, ...]], codec: Codec, ids: Ids, appends: Sequence[Append]) -> Sequence[Recorded]:
    """What was stored, in the order of `appends`. Raises `Conflict`; then the transaction must be rolled back."""
    ordered = sorted(appends, key=lambda each: (each.stream.tenant, each.stream.name))
    _refuse_senseless(ordered)
    new = [
        _New(place, number, ids(), codec.encode(event), meta)
        for place, each in enumerate(ordered, 1)
        for meta in (meta_json(each.meta),)
        for number, event in enumerate(each.events, 1)
    ]
    cursor.execute(APPEND, _parameters(ordered, new), prepare=len(new) < LARGE)
    rows = cursor.fetchall()
    befores = {place: before for place, before, _, _ in rows}
    _refuse_lost_race(ordered, befores)
    events = [event for each in ordered for event in each.events]
    by_place: dict[int, list[Recorded]] = {}
    for one, event, (_, _, position, recorded_at) in zip(new, events, rows, strict=True):
        each = ordered[one.place - 1]
        by_place.setdefault(one.place, []).append(
            _recorded(each, one, event, (position, befores[one.place], recorded_at))
        )
    places = {each.stream: place for place, each in enumerate(ordered, 1)}
    return [stored for each in appends for stored in by_place[places[each.stream]]]


def _recorded(each: Append, one: _New, event: object, drawn: tuple[int, int, datetime]) -> Recorded:
    position, before, recorded_at = drawn
    return Recorded(
        position=position,
        id=one.id,
        stream=each.stream,
        version=before + one.number,
        type=one.encoded.type.name,
        schema=one.encoded.type.schema,
        event=event,
        subject=one.encoded.subject,
        meta=each.meta,
        recorded_at=recorded_at,
    )


def _parameters(ordered: Sequence[Append], new: Sequence[_New]) -> tuple[list[Any], ...]:
    types = {each.encoded.type.name: each.encoded.type for each in new}
    routes = [(name, route) for name, kind in types.items() for route in kind.routes]
    return (
        [each.stream.tenant for each in ordered],
        [each.stream.name for each in ordered],
        [each.stream.kind for each in ordered],
        [_expected(each) for each in ordered],
        [len(each.events) for each in ordered],
        [each.place for each in new],
        [each.number for each in new],
        [each.id for each in new],
        [each.encoded.type.name for each in new],
        [each.encoded.type.schema for each in new],
        [each.encoded.data for each in new],
        [each.encoded.personal for each in new],
        [each.encoded.subject for each in new],
        [each.meta for each in new],
        [name for name, _ in routes],
        [route for _, route in routes],
    )


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
