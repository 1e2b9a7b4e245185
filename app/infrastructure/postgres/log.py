"""Reading the log in pages: memory stays flat however long it is."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection
from sqlalchemy import Engine

from app.domain.events import Recorded, Stream
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import borrowed
from app.infrastructure.postgres.errors import place, translated
from app.infrastructure.postgres.record import COLUMNS, recorded

Row = tuple[Any, ...]
Fetch = Callable[[str, dict[str, Any]], list[Row]]

PAGE: Final = 1000
END: Final = 2**63 - 1

STREAM: Final = f"""
SELECT {COLUMNS} FROM events
WHERE tenant = %(tenant)s AND stream = %(stream)s AND version > %(after)s
ORDER BY version LIMIT %(page)s
"""  # noqa: S608
READ: Final = f"""
SELECT {COLUMNS} FROM events
WHERE position > %(after)s AND position <= %(until)s
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
  AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
ORDER BY position LIMIT %(page)s
"""  # noqa: S608
HEAD: Final = "SELECT coalesce(max(position), 0) FROM events"
FREEZE: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@dataclass(frozen=True, slots=True)
class Reader:
    """See `EventLog`; `fetch` runs a query and gives all of its rows."""

    fetch: Fetch
    codec: Codec
    page: int

    def stream(self, stream: Stream, *, after: int = 0) -> Iterator[Recorded]:
        while True:
            rows = self.fetch(
                STREAM, {"tenant": stream.tenant, "stream": stream.name, "after": after, "page": self.page}
            )
            for row in rows:
                event = recorded(self.codec, row)
                yield event
                after = event.version
            if len(rows) < self.page:
                return

    def read(
        self, *, after: int = 0, until: int | None = None, tenant: str | None = None, types: Sequence[str] = ()
    ) -> Iterator[Recorded]:
        asked = {
            "until": END if until is None else until,
            "tenant": tenant,
            "types": list(types) or None,
            "page": self.page,
        }
        while True:
            rows = self.fetch(READ, {**asked, "after": after})
            for row in rows:
                event = recorded(self.codec, row)
                yield event
                after = event.position
            if len(rows) < self.page:
                return

    def head(self) -> int:
        ((position,),) = self.fetch(HEAD, {})
        return int(position)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The log as it was at one moment; other queries on `connection` see that same moment."""

    connection: Connection[Row]
    reader: Reader

    def stream(self, stream: Stream, *, after: int = 0) -> Iterator[Recorded]:
        return self.reader.stream(stream, after=after)

    def read(
        self, *, after: int = 0, until: int | None = None, tenant: str | None = None, types: Sequence[str] = ()
    ) -> Iterator[Recorded]:
        return self.reader.read(after=after, until=until, tenant=tenant, types=types)

    def head(self) -> int:
        return self.reader.head()


@dataclass(frozen=True, slots=True)
class PostgresLog:
    """See `EventLog`; each page is a transaction of its own, and no connection is held between pages."""

    engine: Engine
    codec: Codec
    page: int = PAGE

    def stream(self, stream: Stream, *, after: int = 0) -> Iterator[Recorded]:
        return self._reader().stream(stream, after=after)

    def read(
        self, *, after: int = 0, until: int | None = None, tenant: str | None = None, types: Sequence[str] = ()
    ) -> Iterator[Recorded]:
        return self._reader().read(after=after, until=until, tenant=tenant, types=types)

    def head(self) -> int:
        return self._reader().head()

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One moment of the log, for as long as the block lasts. Raises `LogUnavailable`."""
        with self._connection() as connection:
            connection.execute(FREEZE)

            def fetch(query: str, parameters: dict[str, Any]) -> list[Row]:
                with translated(place(self.engine)):
                    return connection.execute(query, parameters).fetchall()

            yield Snapshot(connection, Reader(fetch, self.codec, self.page))

    def _reader(self) -> Reader:
        return Reader(self._fetch, self.codec, self.page)

    def _fetch(self, query: str, parameters: dict[str, Any]) -> list[Row]:
        with self._connection() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[Connection[Row]]:
        with translated(place(self.engine)), borrowed(self.engine) as connection:
            yield connection
