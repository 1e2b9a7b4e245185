"""Watching a projector at work, from outside: what it has done, has in hand and has before it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from psycopg import Connection

from app.infrastructure.postgres.engine import address, connect
from app.infrastructure.postgres.errors import translated

# Reads every row of the projection: for watching a small outbox closely, not for an operator's.
WORK: Final = """
SELECT
    count(*) FILTER (WHERE o.processed_at IS NULL AND o.parked_at IS NULL),
    count(*) FILTER (WHERE o.processed_at IS NULL AND o.parked_at IS NOT NULL),
    count(*) FILTER (WHERE o.processed_at IS NOT NULL),
    coalesce(max(o.attempts), 0),
    p.batch_first,
    p.batch_last,
    p.outage
FROM projections AS p LEFT JOIN outbox AS o ON o.aggregate_type = 'graph_projection'
WHERE p.name = 'graph'
GROUP BY p.name
"""


@dataclass(frozen=True, slots=True)
class Work:
    """Rows of the graph projection; `attempts` is the most that any has had, the batch is what is in hand, by row."""

    pending: int
    parked: int
    done: int
    attempts: int
    batch_first: int | None
    batch_last: int | None
    outage: str | None


class WorkWatch:
    """Looks again and again over one connection. Raises `LogUnavailable`."""

    def __init__(self, connection: Connection[tuple[Any, ...]], where: str) -> None:
        self._connection, self._where = connection, where

    def look(self) -> Work:
        with translated(self._where):
            found = self._connection.execute(WORK).fetchone()
        assert found is not None, "the row of the projection is written by the first migration"
        return Work(*found)


@contextmanager
def watching_work(url: str, *, connect_timeout: timedelta) -> Iterator[WorkWatch]:
    with connect(url, connect_timeout=connect_timeout) as connection:
        yield WorkWatch(connection, address(url))
