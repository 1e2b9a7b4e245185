"""The part of the log that the graph must show: what every replay tells again, and what `verify` compares with."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from app.infrastructure.postgres.codec import EVENT_TYPES
from app.infrastructure.postgres.log import Snapshot
from app.infrastructure.postgres.record import COLUMNS
from projector.projections import PROJECTIONS

PROJECTED_TYPES: Final = tuple(each.name for each in EVENT_TYPES if each.cls in PROJECTIONS)
"""The stored names of the events that some projection shows."""

PAGE: Final = 1000

# One cursor for all, so that the rows that are still pending or parked are gathered once and not for every page.
SETTLED: Final = """
FROM events AS e
WHERE e.type = ANY(%(types)s)
  -- What is pending or parked is not in the graph yet, with all that follows it in its stream.
  AND NOT EXISTS (
      SELECT FROM outbox AS o
      WHERE o.aggregate_type = 'graph_projection' AND o.processed_at IS NULL AND o.event_position = e.position
  )
  -- What an operator gave up on is not to be told.
  AND NOT EXISTS (
      SELECT FROM events AS s
      WHERE s.type = 'projection.row_skipped' AND (s.data ->> 'position')::bigint = e.position
  )
"""
SELECT: Final = f"SELECT {COLUMNS} {SETTLED} ORDER BY e.position"
COUNT: Final = f"SELECT count(*) {SETTLED}"


@dataclass(frozen=True, slots=True)
class Stored:
    """An event as it is stored: where it stands, and the row that the codec reads the rest from."""

    lane: tuple[str, str]
    position: int
    version: int
    row: tuple[Any, ...]


def settled(snapshot: Snapshot) -> Iterator[Stored]:
    """The events that the graph must show, by position; memory stays flat."""
    with snapshot.connection.cursor(name="settled") as cursor:
        cursor.itersize = PAGE
        cursor.execute(SELECT, {"types": list(PROJECTED_TYPES)})
        for row in cursor:
            position, _, tenant, stream, version, *_ = row
            yield Stored((tenant, stream), position, version, row)


def total(snapshot: Snapshot) -> int:
    """How many events `settled` gives."""
    found = snapshot.connection.execute(COUNT, {"types": list(PROJECTED_TYPES)}).fetchone()
    assert found is not None
    return int(found[0])
