"""Tells the consumers after a commit that there is something to do; a hint may get lost, for they poll as well."""

import threading
from datetime import timedelta
from typing import Any, Final

import psycopg
import structlog

from app.domain.errors import RetoldError
from app.infrastructure.postgres.engine import connect

CHANNEL: Final = "retold_outbox"
PAUSE: Final = timedelta(milliseconds=5)
RETRY: Final = timedelta(seconds=1)

logger = structlog.get_logger(__name__)


class Hinter:
    """Sends notifications from a thread and a connection of its own, never from a writing transaction.

    A notification inside a transaction would make all commits of the database wait for each other.
    """

    def __init__(self, url: str, *, connect_timeout: timedelta = timedelta(seconds=5)) -> None:
        self._url = url
        self._connect_timeout = connect_timeout
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def hint(self) -> None:
        """Returns at once; hints that come together become one notification."""
        self._wanted.set()
        if self._thread is None:
            self._start()

    def close(self) -> None:
        """Send what is still to be sent, and end."""
        self._closed.set()
        self._wanted.set()
        with self._starting:
            if self._thread is not None:
                self._thread.join(timeout=self._connect_timeout.total_seconds() + 1)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="retold-hints", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        connection: psycopg.Connection[tuple[Any, ...]] | None = None
        while True:
            self._wanted.wait()
            self._wanted.clear()
            last = self._closed.is_set()
            connection = self._send(connection)
            if last:
                break
            self._closed.wait((PAUSE if connection else RETRY).total_seconds())
        if connection:
            connection.close()

    def _send(
        self, connection: psycopg.Connection[tuple[Any, ...]] | None
    ) -> psycopg.Connection[tuple[Any, ...]] | None:
        """The connection to use next time; None if there is none that works."""
        try:
            connection = connection or connect(self._url, connect_timeout=self._connect_timeout)
            connection.execute("SELECT pg_notify(%s, '')", (CHANNEL,))
        except (RetoldError, psycopg.Error) as error:
            logger.debug("hint not sent; consumers find the work by polling", error=str(error))
            if connection:
                connection.close()
            return None
        return connection


def no_hint() -> None:
    """For those who switch hints off: consumers find their work by polling."""
