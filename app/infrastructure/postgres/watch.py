"""Looking at the newest events, and following the log in the order of its positions without missing one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from psycopg import Connection
from sqlalchemy import Engine

from app.domain.events import Recorded
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import borrowed, make_engine
from app.infrastructure.postgres.errors import place, translated
from app.infrastructure.postgres.record import COLUMNS, recorded

END: Final = 2**63 - 1

WANTED: Final = f"""
SELECT {COLUMNS} FROM events
WHERE position > %(after)s AND position <= %(until)s
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
  AND (%(stream)s::text IS NULL OR stream = %(stream)s)
  AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
"""  # noqa: S608 (COLUMNS is a constant)
FIRST: Final = f"{WANTED} ORDER BY position LIMIT %(count)s"
LAST: Final = f"{WANTED} ORDER BY position DESC LIMIT %(count)s"

HEAD: Final = "SELECT coalesce(max(position), 0) FROM events"
# Whoever appends holds this lock from before it draws a position until its transaction has ended.
WRITERS: Final = """
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = 'events'::regclass AND mode = 'RowExclusiveLock' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events are wanted; None and nothing mean all."""

    tenant: str | None = None
    stream: str | None = None
    types: Sequence[str] = ()


@dataclass(slots=True)
class Watch:
    """Reads the log for somebody who watches it. Every method raises `LogUnavailable`."""

    engine: Engine
    codec: Codec
    _final: int = 0
    _head: int = 0
    _writers: set[str] = field(default_factory=set)

    def first(self, wanted: Filter, *, count: int, after: int, until: int = END) -> list[Recorded]:
        """The first `count` events above the position `after`, in order."""
        return self._read(FIRST, wanted, count=count, after=after, until=until)

    def last(self, wanted: Filter, *, count: int, until: int = END) -> list[Recorded]:
        """The last `count` events up to the position `until`, in order."""
        return self._read(LAST, wanted, count=count, after=0, until=until)[::-1]

    def final(self) -> int:
        """A position up to which nothing can appear any more.

        A transaction may commit after another that has drawn a higher position. Up to the highest position that is
        visible, everything is final once all those have ended that were appending at that moment; a transaction that
        writes to other tables holds nobody up.
        """
        with self._connection() as connection:
            writers = {str(each) for (each,) in connection.execute(WRITERS)} if self._writers else set()
            self._writers &= writers
            if self._writers:
                return self._final
            self._final = self._head
            # In this order: whoever has drawn a position up to the head is seen holding the lock, or has ended.
            ((head,),) = connection.execute(HEAD).fetchall()
            self._writers = {str(each) for (each,) in connection.execute(WRITERS)}
            self._head = int(head)
            if not self._writers:
                self._final = self._head
            return self._final

    @property
    def waits(self) -> bool:
        """Whether something is visible that is not final yet, so that it is worth looking again soon."""
        return self._final < self._head

    def _read(self, query: str, wanted: Filter, *, count: int, after: int, until: int) -> list[Recorded]:
        parameters = {
            "after": after,
            "until": until,
            "count": count,
            "tenant": wanted.tenant,
            "stream": wanted.stream,
            "types": list(wanted.types) or None,
        }
        with self._connection() as connection:
            return [recorded(self.codec, row) for row in connection.execute(query, parameters)]

    @contextmanager
    def _connection(self) -> Iterator[Connection[tuple[Any, ...]]]:
        with translated(place(self.engine)), borrowed(self.engine) as connection:
            connection.autocommit = True
            try:
                yield connection
            finally:
                connection.autocommit = False


@contextmanager
def watching(database_url: str, *, connect_timeout: timedelta) -> Iterator[Watch]:
    codec = Codec()
    codec.check()
    engine = make_engine(database_url, connect_timeout=connect_timeout, pool_size=1)
    try:
        yield Watch(engine, codec)
    finally:
        engine.dispose()
