"""The lock that makes a process the only projector, and the one connection that it lives on."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final, LiteralString

import psycopg

from app.domain.errors import Conflict, LogUnavailable
from app.infrastructure.postgres.engine import address, connect
from app.infrastructure.postgres.errors import translated

NUMBER: Final = 0x6772617068  # "graph" in ASCII; advisory locks are numbers

TRY: Final = "SELECT pg_try_advisory_lock(%(number)s)"
WAIT: Final = "SELECT pg_advisory_lock(%(number)s)"
GIVE_BACK: Final = "SELECT pg_advisory_unlock(%(number)s)"
SOMEBODY_WAITS: Final = """
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND NOT granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = (%(number)s::bigint >> 32)::bigint::oid AND objid = (%(number)s::bigint & 4294967295)::bigint::oid
)
"""


class Lock(Enum):
    """Who has the lock: this process still, this process from now on, or another."""

    HELD = auto()
    TAKEN = auto()
    ELSEWHERE = auto()


class LockedConnection:
    """A connection to PostgreSQL, in autocommit, that the projector does all its writing on.

    A projector whose connection is gone has lost the lock, and by the same token cannot mark a row any more: nothing
    but `acquire` connects. Every method raises `LogUnavailable`.
    """

    def __init__(self, url: str, *, connect_timeout: timedelta) -> None:
        self._url, self._connect_timeout = url, connect_timeout
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._locked = False

    @property
    def held(self) -> bool:
        """Whether this process has the lock, as far as it knows."""
        return self._locked and self._connection is not None and not self._connection.closed

    def acquire(self) -> Lock:
        """Take the lock if nobody has it; connects first where there is no connection."""
        if self._connection is None or self._connection.closed:
            # A new connection never holds the lock, whatever the old one had.
            self._locked = False
            self._connection = connect(self._url, connect_timeout=self._connect_timeout)
            # A mark that a crash of PostgreSQL takes back is made again: projecting the same twice changes nothing.
            self._connection.execute("SET synchronous_commit = off")
        if self._locked:
            return Lock.HELD
        self._locked = bool(self.one(TRY, number=NUMBER)[0])
        return Lock.TAKEN if self._locked else Lock.ELSEWHERE

    def wait(self, timeout: timedelta) -> None:
        """Take the lock as soon as its holder gives it back. Raises `Conflict` after `timeout`."""
        if self.acquire() is not Lock.ELSEWHERE:
            # PostgreSQL counts: a lock that is taken twice by one session must be given back twice.
            return
        self._set_lock_timeout(timeout)
        try:
            with self._cursor() as cursor:
                cursor.execute(WAIT, {"number": NUMBER})
        except LogUnavailable as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise Conflict("the lock was not given back in time; try again") from error
            raise
        finally:
            self._set_lock_timeout(timedelta(0))
        self._locked = True

    def somebody_waits(self) -> bool:
        """Whether another process waits for the lock, such as a replay."""
        return bool(self.one(SOMEBODY_WAITS, number=NUMBER)[0])

    def release(self) -> None:
        if self.held:
            self.one(GIVE_BACK, number=NUMBER)
        self._locked = False

    def close(self) -> None:
        """Also gives the lock back, for PostgreSQL takes it from a session that ends."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._locked = None, False

    def run(self, statement: LiteralString, **parameters: object) -> None:
        with self._cursor() as cursor:
            cursor.execute(statement, parameters or None)

    def all(self, statement: LiteralString, **parameters: object) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            return cursor.execute(statement, parameters or None).fetchall()

    def one(self, statement: LiteralString, **parameters: object) -> tuple[Any, ...]:
        return self.all(statement, **parameters)[0]

    @contextmanager
    def _cursor(self) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
        where = address(self._url)
        if self._connection is None or self._connection.closed:
            raise LogUnavailable(f"the connection to PostgreSQL at {where} is lost, and the lock with it; try again")
        with translated(where), self._connection.cursor() as cursor:
            yield cursor

    def _set_lock_timeout(self, timeout: timedelta) -> None:
        milliseconds = str(int(timeout.total_seconds() * 1000))
        self.one("SELECT set_config('lock_timeout', %(milliseconds)s, false)", milliseconds=milliseconds)
