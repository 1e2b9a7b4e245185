"""The one door to the graph server, embedded or Neo4j: every call ends within its time, and heals by itself afterwards.

The driver has no time limit for reading, so a server that accepts connections and then says nothing would hold its
caller for ever. Its asynchronous face can be cancelled at any moment, which is documented to kill the connection in
use and nothing else; closing the synchronous driver under a running call is documented to be unsafe. So the calls here
are synchronous for whoever makes them, and run on an event loop in a thread of this client.
"""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import neo4j
from neo4j.exceptions import ConfigurationError

from app.domain.errors import GraphUnavailable
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.graph.errors import Kind, kind_of, refused, unavailable

T = TypeVar("T")
Work = Callable[[neo4j.AsyncSession], Awaitable[T]]

ATTEMPTS: Final = 5
FIRST_PAUSE: Final = timedelta(milliseconds=20)
GRACE: Final = timedelta(seconds=1)
"""How much longer than its time a call may take to come back: what cancelling needs on a busy machine."""

PROBES: Final = ("CREATE (probe:WriteProbe)", "MATCH (probe:WriteProbe) DELETE probe")
"""Two commits that really write. What the second one leaves behind after a kill is cleaned up by the next."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Cypher, and the values of its parameters; values never become part of the query."""

    query: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


class GraphClient:
    """Runs statements on one database.

    Connects when it is first used, and anew after an outage. Any thread may use it. Every method raises
    `GraphUnavailable` where the server cannot be reached, turns us away, does not answer within `timeout`, or leaves
    the outcome unknown, and `GraphRefused` where the statement itself is at fault.
    """

    def __init__(self, endpoint: GraphEndpoint, *, timeout: timedelta, connect_timeout: timedelta) -> None:
        self.endpoint = endpoint
        self._timeout = timeout
        self._connect_timeout = min(connect_timeout, timeout)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._driver: neo4j.AsyncDriver | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, statements: Sequence[Statement]) -> list[dict[str, Any]]:
        """Run all of `statements` in one transaction: all are stored, or none is. Returns the rows of the last one."""

        async def work(transaction: neo4j.AsyncManagedTransaction) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = []
            for each in statements:
                rows = await _rows(await transaction.run(each.query, dict(each.parameters)))
            return rows

        bounded = neo4j.unit_of_work(timeout=self._timeout.total_seconds())(work)
        return self._call(lambda session: session.execute_write(bounded))

    def run(self, statement: Statement) -> list[dict[str, Any]]:
        """Run one statement outside a transaction of ours, as DDL and `IN TRANSACTIONS` need it. Returns its rows.

        Nothing else: outside a transaction the embedded server commits every single node, which takes milliseconds.
        """
        query = neo4j.Query(statement.query, timeout=self._timeout.total_seconds())

        async def work(session: neo4j.AsyncSession) -> list[dict[str, Any]]:
            return await _rows(await session.run(query, dict(statement.parameters)))

        return self._call(work)

    def read(self, statement: Statement) -> list[dict[str, Any]]:
        """The rows of a statement that only reads."""

        async def work(transaction: neo4j.AsyncManagedTransaction) -> list[dict[str, Any]]:
            return await _rows(await transaction.run(statement.query, dict(statement.parameters)))

        bounded = neo4j.unit_of_work(timeout=self._timeout.total_seconds())(work)
        return self._call(lambda session: session.execute_read(bounded))

    def pages(self, query: str, *, size: int, after: str = "") -> Iterator[list[dict[str, Any]]]:
        """The rows of `query` in pages, each read when it is asked for.

        The query takes `$after` and `$size` and orders its rows by a column `cursor`, of which it returns values above
        `$after`.
        """
        while page := self.read(Statement(query, {"after": after, "size": size})):
            yield page
            after = page[-1]["cursor"]

    def ping(self) -> None:
        """Nothing, if the server answers on this database."""
        self.read(Statement("RETURN 1 AS answer"))

    def close(self) -> None:
        """Give back every connection, and end the calls of other threads; a call after this one opens new ones."""
        with self._lock:
            loop, thread, driver = self._loop, self._thread, self._driver
            self._loop = self._thread = self._driver = None
        if loop is None or thread is None:
            return
        farewell = asyncio.run_coroutine_threadsafe(_farewell(driver), loop)
        with suppress(TimeoutError):
            farewell.result((GRACE * 2).total_seconds())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _call(self, work: Work[T]) -> T:
        task = asyncio.run_coroutine_threadsafe(self._within_time(work), self._running_loop())
        try:
            return task.result((self._timeout + GRACE).total_seconds())
        except TimeoutError as error:
            raise self._too_late() from error
        except CancelledError as error:
            raise GraphUnavailable(f"the door to the graph at {self.endpoint.url} was closed in mid-call") from error
        finally:
            # Does nothing to a finished call; one that was interrupted must not go on behind its caller's back.
            task.cancel()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="graph-client", daemon=True)
                self._thread.start()
            return self._loop

    async def _within_time(self, work: Work[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                return await self._attempts(work)
        except TimeoutError as error:
            raise self._too_late() from error

    async def _attempts(self, work: Work[T]) -> T:
        pause = FIRST_PAUSE.total_seconds()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._once(work)
            except Exception as error:
                kind = kind_of(error)
                if kind is Kind.REFUSED:
                    raise refused(error) from error
                if kind is Kind.OUTAGE:
                    raise unavailable(self.endpoint.url, error) from error
                if attempt == ATTEMPTS:
                    raise await self._verdict(kind, error) from error
            # Whoever we collided with waits too; without chance in it we would collide again.
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
            pause *= 2
        raise AssertionError("unreachable")

    async def _verdict(self, kind: Kind, error: Exception) -> Exception:
        if kind is Kind.DOUBTFUL and await self._can_write():
            return refused(error)
        return unavailable(self.endpoint.url, error)

    async def _can_write(self) -> bool:
        async def work(session: neo4j.AsyncSession) -> None:
            for probe in PROBES:
                await (await session.run(probe)).consume()

        try:
            await self._once(work)
        except Exception as error:
            # A clash with another probe is a sign of life.
            return kind_of(error) is Kind.TRANSIENT
        return True

    async def _once(self, work: Work[T]) -> T:
        if self._driver is None:
            self._driver = self._new_driver()
        async with self._driver.session(database=self.endpoint.database) as session:
            return await work(session)

    def _new_driver(self) -> neo4j.AsyncDriver:
        # Whatever is wrong with the URL shows here, and is no fault of the statement that happens to be the first.
        try:
            _refuse_bad_url(self.endpoint.url)
            return self._driver_for_url()
        except Exception as error:
            raise ConfigurationError(str(error)) from error

    def _driver_for_url(self) -> neo4j.AsyncDriver:
        connect = self._connect_timeout.total_seconds()
        return neo4j.AsyncGraphDatabase.driver(
            self.endpoint.url,
            auth=(self.endpoint.user, self.endpoint.password),
            user_agent="retold",
            connection_timeout=connect,
            connection_acquisition_timeout=connect,
            connection_write_timeout=self._timeout.total_seconds(),
            # One attempt: what is tried again, and how often, is decided here, for both servers alike.
            max_transaction_retry_time=-1,
            disable_auto_commit_retries=True,
            notifications_min_severity="OFF",
            telemetry_disabled=True,
        )

    def _too_late(self) -> GraphUnavailable:
        return GraphUnavailable(
            f"the graph at {self.endpoint.url} did not answer within {self._timeout.total_seconds():g} s, "
            "and the outcome is unknown; if it is well, give it more time with RETOLD_GRAPH_TIMEOUT"
        )


def _refuse_bad_url(url: str) -> None:
    parts = urlsplit(url)
    if not parts.scheme.startswith(("bolt", "neo4j")):
        raise ValueError(f"{parts.scheme} is no scheme of Bolt")
    # What the driver and the resolver would do with the first statement in hand.
    _ = parts.port
    (parts.hostname or "").encode("idna")


async def _rows(result: neo4j.AsyncResult) -> list[dict[str, Any]]:
    return [record.data() async for record in result]


async def _farewell(driver: neo4j.AsyncDriver | None) -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    if driver is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE.total_seconds()):
                await driver.close()
