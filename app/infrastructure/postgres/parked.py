"""Rows of the graph projection that were set aside, and the operator's decision about them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from psycopg import Connection

from app.domain.errors import Conflict, NotFound
from app.use_cases.ports import ParkedRow

PARKED_ROWS: Final = """
SELECT o.id, o.tenant, o.aggregate_id, o.event_position, e.type, o.attempts, coalesce(o.last_error, ''), o.parked_at,
       o.behind
FROM outbox o LEFT JOIN events e ON e.position = o.event_position
WHERE o.aggregate_type = 'graph_projection' AND o.parked_at IS NOT NULL AND o.processed_at IS NULL
"""
"""As `ParkedRow` has them; more conditions, or an order, may follow."""

HEAD: Final = f"{PARKED_ROWS} AND o.id = %s FOR UPDATE OF o"
RELEASE: Final = """
UPDATE outbox SET parked_at = NULL, behind = NULL, attempts = 0
WHERE aggregate_type = 'graph_projection' AND tenant = %(tenant)s AND aggregate_id = %(stream)s
  AND parked_at IS NOT NULL AND processed_at IS NULL
"""
GIVE_UP: Final = "UPDATE outbox SET processed_at = clock_timestamp() WHERE id = %s"


class PostgresParkedRows:
    """See `ParkedRows`; `guarded` is how its unit of work runs a statement."""

    def __init__(
        self, connection: Connection[tuple[Any, ...]], guarded: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._connection = connection
        self._guarded = guarded
        self.changed = False

    def head(self, row: int) -> ParkedRow:
        with self._guarded():
            found = self._connection.execute(HEAD, (row,)).fetchone()
            if found is None:
                raise NotFound(f"outbox row {row} is not parked; see `retold projector parked list`")
            parked = ParkedRow(*found)
            if parked.behind is not None:
                raise Conflict(f"outbox row {row} waits behind row {parked.behind}; decide about that one")
            return parked

    def retry(self, row: ParkedRow) -> int:
        return self._release(row)

    def skip(self, row: ParkedRow) -> int:
        with self._guarded():
            self._connection.execute(GIVE_UP, (row.id,))
        return self._release(row)

    def _release(self, row: ParkedRow) -> int:
        self.changed = True
        with self._guarded():
            return self._connection.execute(RELEASE, {"tenant": row.tenant, "stream": row.stream}).rowcount
