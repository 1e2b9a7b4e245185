"""The rows of the outbox that the projector drains, and the state of the projection."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from app.domain.errors import Conflict
from app.infrastructure.postgres.record import COLUMNS
from projector.lock import Lock, LockedConnection

BEAT: Final = timedelta(seconds=1)

TAKE: Final = f"""
WITH batch AS MATERIALIZED (
    SELECT o.id AS row_id, o.tenant AS row_tenant, o.aggregate_id AS row_stream, o.event_position AS row_position,
           o.attempts
    FROM outbox AS o
    WHERE o.aggregate_type = 'graph_projection' AND o.processed_at IS NULL AND o.parked_at IS NULL
      -- A stream stops at its parked row, also for rows that were written after the parking.
      AND NOT EXISTS (
          SELECT FROM outbox AS p
          WHERE p.aggregate_type = 'graph_projection' AND p.tenant = o.tenant AND p.aggregate_id = o.aggregate_id
            AND p.parked_at IS NOT NULL AND p.processed_at IS NULL AND p.event_position < o.event_position
      )
    ORDER BY o.id
    LIMIT %(limit)s
), in_hand AS (
    -- What a process was at when it died is read off here by the next one.
    UPDATE projections
    SET batch_first = (SELECT min(row_id) FROM batch), batch_last = (SELECT max(row_id) FROM batch),
        last_attempt_at = clock_timestamp()
    WHERE name = 'graph'
)
SELECT row_id, row_tenant, row_stream, row_position, attempts, {COLUMNS}
FROM batch LEFT JOIN events ON position = row_position
ORDER BY row_id
"""  # noqa: S608 (COLUMNS is a constant)

MARK: Final = """
WITH marked AS (
    UPDATE outbox SET processed_at = clock_timestamp(), last_error = NULL
    WHERE id = ANY(%(rows)s) AND processed_at IS NULL
)
UPDATE projections
SET batch_first = NULL, batch_last = NULL, last_success_at = clock_timestamp(), outage = NULL, outage_since = NULL,
    head = greatest(head, %(head)s)
WHERE name = 'graph'
"""

REPORT_OUTAGE: Final = """
UPDATE projections
SET batch_first = NULL, batch_last = NULL, last_attempt_at = clock_timestamp(), outage = %(error)s,
    outage_since = coalesce(outage_since, clock_timestamp())
WHERE name = 'graph'
"""

COUNT_ATTEMPT: Final = """
UPDATE outbox SET attempts = attempts + 1, last_error = %(error)s
WHERE id = %(row)s AND processed_at IS NULL
RETURNING attempts
"""

BLAME: Final = f"""
WITH put_down AS (
    UPDATE projections SET batch_first = NULL, batch_last = NULL WHERE name = 'graph'
) {COUNT_ATTEMPT}
"""  # noqa: S608 (COUNT_ATTEMPT is a constant)

PARK: Final = """
WITH head AS (
    UPDATE outbox SET parked_at = clock_timestamp(), behind = NULL
    WHERE id = %(row)s AND processed_at IS NULL
    RETURNING id, tenant, aggregate_id
)
UPDATE outbox AS o SET parked_at = clock_timestamp(), behind = head.id
FROM head
WHERE o.aggregate_type = 'graph_projection' AND o.tenant = head.tenant AND o.aggregate_id = head.aggregate_id
  AND o.id > head.id AND o.processed_at IS NULL AND o.parked_at IS NULL
"""

# Rows written to a stream after its head was parked; setting them aside keeps what is pending short.
PARK_LATECOMERS: Final = """
UPDATE outbox AS o SET parked_at = clock_timestamp(), behind = head.id
FROM outbox AS head
WHERE head.aggregate_type = 'graph_projection' AND head.parked_at IS NOT NULL AND head.processed_at IS NULL
  AND head.behind IS NULL
  AND o.aggregate_type = 'graph_projection' AND o.tenant = head.tenant AND o.aggregate_id = head.aggregate_id
  AND o.processed_at IS NULL AND o.parked_at IS NULL
"""

# A replay meets a poisonous event again whose row was marked long ago, or never written.
WRITE_MISSING_ROWS: Final = """
INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant)
SELECT 'graph_projection', e.stream, e.position, e.tenant
FROM events AS e
WHERE e.position = ANY(%(positions)s)
  AND e.position NOT IN (
      SELECT event_position FROM outbox
      WHERE aggregate_type = 'graph_projection' AND event_position = ANY(%(positions)s)
  )
ORDER BY e.position
"""

PARK_POSITIONS: Final = """
WITH head AS (
    SELECT min(id) AS id FROM outbox WHERE aggregate_type = 'graph_projection' AND event_position = %(first)s
)
UPDATE outbox AS o
SET processed_at = NULL, parked_at = clock_timestamp(), behind = nullif(head.id, o.id),
    attempts = CASE WHEN o.id = head.id THEN %(attempts)s ELSE 0 END,
    last_error = CASE WHEN o.id = head.id THEN %(error)s END
FROM head
WHERE o.aggregate_type = 'graph_projection' AND o.event_position = ANY(%(positions)s)
"""

IN_HAND: Final = """
SELECT batch_first, batch_last, replay_started_at IS NOT NULL, holder IS NOT DISTINCT FROM %(holder)s
FROM projections WHERE name = 'graph'
"""


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A row to project; `event` is the stored row of its event, None where the log no longer has it."""

    id: int
    tenant: str
    stream: str
    position: int
    attempts: int
    event: tuple[Any, ...] | None

    @property
    def lane(self) -> tuple[str, str]:
        """Rows with the same one are projected in order."""
        return (self.tenant, self.stream)


@dataclass(frozen=True, slots=True)
class InHand:
    """The rows that the last holder of the lock had in hand, whether it was replaying, and whether that was us."""

    first: int | None
    last: int | None
    replaying: bool
    ours: bool


class Outbox:
    """The `graph_projection` rows, for the one process that holds the lock. Raises `LogUnavailable` everywhere."""

    def __init__(self, connection: LockedConnection, *, holder: str) -> None:
        self._connection, self._holder = connection, holder
        self._last_beat = 0.0

    def acquire(self) -> Lock:
        """Take the lock if nobody has it; connects first where there is no connection."""
        return self._connection.acquire()

    def wait_for_lock(self, timeout: timedelta) -> None:
        """Take the lock, waiting for its holder to yield. Raises `Conflict` after `timeout`."""
        try:
            self._connection.wait(timeout)
        except Conflict as error:
            raise Conflict(
                f"{self.holder() or 'another process'} holds the graph and did not yield within "
                f"{timeout.total_seconds():g} s; stop that projector, then try again"
            ) from error

    def yield_to_waiters(self) -> bool:
        """Give the lock up if somebody waits for it, such as a replay; True if so."""
        if not self._connection.somebody_waits():
            return False
        self.release()
        return True

    def release(self) -> None:
        """Give the lock back. Nothing stays in hand: whoever gives back is alive, whatever went wrong before."""
        if self._connection.held:
            self._connection.run(
                "UPDATE projections SET holder = NULL, batch_first = NULL, batch_last = NULL WHERE name = 'graph'"
            )
        self._connection.release()

    def holder(self) -> str | None:
        holder = self._connection.one("SELECT holder FROM projections WHERE name = 'graph'")[0]
        return None if holder is None else str(holder)

    def in_hand(self) -> InHand:
        return InHand(*self._connection.one(IN_HAND, holder=self._holder))

    def take(self, limit: int) -> Sequence[PendingRow]:
        """The next `limit` pending rows by id, in hand from now on. An open transaction elsewhere holds nobody up."""
        self._connection.run(PARK_LATECOMERS)
        return [_pending(found) for found in self._connection.all(TAKE, limit=limit)]

    def mark(self, rows: Sequence[int], *, head: int) -> None:
        """These rows are done, nothing is in hand, and the graph shows an event at position `head` (0 for none)."""
        self._connection.run(MARK, rows=list(rows), head=head)

    def beat(self) -> None:
        """A sign of life during long work, written once a second at most."""
        now = time.monotonic()
        if now - self._last_beat >= BEAT.total_seconds():
            self._last_beat = now
            self._connection.run("UPDATE projections SET last_attempt_at = clock_timestamp() WHERE name = 'graph'")

    def blame(self, row: int, error: str) -> int:
        """Count an attempt of a row that a dead process left in hand, and put it down, both or neither; see
        `count_attempt`."""
        found = self._connection.all(BLAME, row=row, error=error)
        return int(found[0][0]) if found else 0

    def report_outage(self, error: str) -> None:
        """The graph does not answer: nothing is in hand, and no attempt is counted."""
        self._connection.run(REPORT_OUTAGE, error=error)

    def count_attempt(self, row: int, error: str) -> int:
        """How often the row has failed now; 0 if somebody has marked it meanwhile."""
        found = self._connection.all(COUNT_ATTEMPT, row=row, error=error)
        return int(found[0][0]) if found else 0

    def park(self, row: int) -> None:
        """Set the row aside, and the rest of its stream behind it."""
        self._connection.run(PARK, row=row)

    def park_positions(self, positions: Sequence[int], *, attempts: int, error: str) -> None:
        """Set aside the event at the first of these positions, and the others, of the same stream, behind it."""
        self._connection.run(WRITE_MISSING_ROWS, positions=list(positions))
        self._connection.run(
            PARK_POSITIONS, first=positions[0], positions=list(positions), attempts=attempts, error=error
        )

    def begin_replay(self) -> None:
        self._connection.run(
            "UPDATE projections SET replay_started_at = clock_timestamp(), batch_first = NULL, batch_last = NULL, "
            "last_attempt_at = clock_timestamp(), head = 0 WHERE name = 'graph'"
        )

    def end_replay(self, horizon: int) -> None:
        """The graph is the log up to `horizon` again."""
        self._connection.run(
            "UPDATE projections SET replay_started_at = NULL, head = %(horizon)s, last_success_at = clock_timestamp(), "
            "outage = NULL, outage_since = NULL WHERE name = 'graph'",
            horizon=horizon,
        )

    def sign(self) -> None:
        """Put our name to the lock, and to what we shall have in hand."""
        self._connection.run("UPDATE projections SET holder = %(holder)s WHERE name = 'graph'", holder=self._holder)


def _pending(found: tuple[Any, ...]) -> PendingRow:
    row_id, tenant, stream, position, attempts, *event = found
    return PendingRow(row_id, tenant, stream, position, attempts, None if event[0] is None else tuple(event))
