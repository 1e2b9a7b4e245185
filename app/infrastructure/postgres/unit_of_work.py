"""One transaction on PostgreSQL: load, decide, append; leaving the block commits, an error rolls back."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from sqlalchemy import Engine

from app.domain.errors import LogUnavailable
from app.domain.events import Recorded, Stream
from app.infrastructure.postgres.append import append
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import borrowed
from app.infrastructure.postgres.errors import place, translated
from app.infrastructure.postgres.parked import PostgresParkedRows
from app.infrastructure.postgres.record import COLUMNS, recorded
from app.use_cases.ports import Append, Ids, ParkedRows

LOCK: Final = "SELECT version FROM streams WHERE tenant = %s AND stream = %s FOR UPDATE"
READ: Final = f"SELECT {COLUMNS} FROM events WHERE tenant = %s AND stream = %s ORDER BY version"  # noqa: S608
FIND: Final = f"SELECT {COLUMNS} FROM events WHERE id = ANY(%s)"  # noqa: S608


@dataclass(frozen=True, slots=True)
class PostgresBegin:
    """Starts a unit of work; `hint` is called after a commit that wrote, must return at once and never raise."""

    engine: Engine
    codec: Codec
    ids: Ids
    hint: Callable[[], None]

    @contextmanager
    def __call__(self) -> Iterator["PostgresUnitOfWork"]:
        with borrowed(self.engine) as connection:
            work = PostgresUnitOfWork(connection, self.codec, self.ids, place(self.engine))
            yield work
            work.commit()
        if work.wrote:
            self.hint()


class PostgresUnitOfWork:
    """See `UnitOfWork`. An error in any of its methods dooms it: nothing of it will be stored."""

    def __init__(self, connection: Connection[tuple[Any, ...]], codec: Codec, ids: Ids, where: str) -> None:
        self._connection = connection
        self._codec = codec
        self._ids = ids
        self._where = where
        self._appended = False
        self._doomed = False
        self._parked = PostgresParkedRows(connection, self._guarded)

    @property
    def parked(self) -> ParkedRows:
        return self._parked

    @property
    def wrote(self) -> bool:
        """Whether a consumer has something new to do."""
        return self._appended or self._parked.changed

    def load(self, stream: Stream) -> Sequence[Recorded]:
        """Two statements, for one alone would read with a snapshot from before it got the lock.

        (Sent as a pipeline they cost more than the round trip saved.)
        """
        with self._guarded():
            self._connection.execute(LOCK, (stream.tenant, stream.name), prepare=True)
            cursor = self._connection.execute(READ, (stream.tenant, stream.name), prepare=True)
            return [recorded(self._codec, row) for row in cursor]

    def read(self, stream: Stream) -> Sequence[Recorded]:
        with self._guarded():
            cursor = self._connection.execute(READ, (stream.tenant, stream.name))
            return [recorded(self._codec, row) for row in cursor]

    def find(self, ids: Iterable[UUID]) -> Mapping[UUID, Recorded]:
        wanted = list(ids)
        if not wanted:
            return {}
        with self._guarded():
            found = [recorded(self._codec, row) for row in self._connection.execute(FIND, (wanted,))]
        return {each.id: each for each in found}

    def append(self, *appends: Append) -> Sequence[Recorded]:
        """The events as they were stored, in the order given."""
        if self._appended:
            raise RuntimeError("append was called before in this unit of work; give it all streams at once")
        if not appends:
            return ()
        self._appended = True
        with self._guarded():
            return append(self._connection.cursor(), self._codec, self._ids, appends)

    def commit(self) -> None:
        """For the block that owns this unit. Raises `LogUnavailable`, also where the outcome is unknown."""
        if self._doomed:
            raise RuntimeError("an error in this unit of work was swallowed inside its block; let it leave the block")
        try:
            with translated(self._where):
                self._connection.commit()
        except LogUnavailable as error:
            raise LogUnavailable(
                f"the connection to PostgreSQL at {self._where} was lost during the commit and its outcome is unknown;"
                " read what is stored before trying again"
            ) from error

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with translated(self._where):
                yield
        except BaseException:
            self._doomed = True
            raise
