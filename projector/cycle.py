"""One cycle of the projector: take pending rows, tell the graph what their events change, mark them.

An outage is not poison. While the graph is unavailable the cycle stops: nothing is marked and no attempt counted, so
that everything is tried again by itself. Any other failure is the row's own: it is isolated by halving the batch, and
after some attempts it is parked with the rest of its stream, while other streams go on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import Protocol

import structlog

from app.domain.errors import GraphUnavailable
from app.domain.events import Recorded
from app.infrastructure.postgres import record
from app.infrastructure.postgres.codec import Codec
from projector import projections
from projector.changes import Change
from projector.fold import Graph
from projector.outbox import Outbox, PendingRow

log = structlog.get_logger()


class Writer(Protocol):
    """Where changes go."""

    def ping(self) -> None:
        """Raises `GraphUnavailable`."""

    def write(self, batch: Graph) -> None:
        """All of `batch` in one transaction, or nothing. Raises `GraphUnavailable`; other errors are the batch's."""


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and what it changes in the graph."""

    lane: tuple[str, str]
    position: int
    version: int
    changes: tuple[Change, ...]
    row: int | None = None


@dataclass(slots=True)
class Outcome:
    """What became of a batch; it also holds when an outage cut the batch short."""

    applied: list[Told] = field(default_factory=list)
    failed: list[tuple[Told, Exception]] = field(default_factory=list)

    def follows_a_failure(self, told: Told) -> bool:
        return any(told.lane == failed.lane and told.position > failed.position for failed, _ in self.failed)


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did. Seconds by the monotonic clock."""

    taken: int = 0
    marked: int = 0
    failed: int = 0
    parked: int = 0
    seconds: float = 0.0
    outage: str | None = None
    standby: bool = False
    overlapped: bool = False

    @property
    def progressed(self) -> bool:
        return self.marked > 0 or self.parked > 0


def write_apart(writer: Writer, batch: Sequence[Told], outcome: Outcome) -> None:
    """Write the batch; where it fails, halve it until the events that cannot be written are alone.

    What follows a failed event in its stream is left out: its row stays pending. Raises `GraphUnavailable`; then
    `outcome` tells how far it got.
    """
    batch = [told for told in batch if not outcome.follows_a_failure(told)]
    graph = folded(batch)
    try:
        if graph.nodes:
            writer.write(graph)
    except GraphUnavailable:
        raise
    except Exception as error:
        if len(batch) == 1:
            outcome.failed.append((batch[0], error))
            return
        half = len(batch) // 2
        write_apart(writer, batch[:half], outcome)
        write_apart(writer, batch[half:], outcome)
    else:
        outcome.applied += batch


def folded(batch: Iterable[Told]) -> Graph:
    graph = Graph()
    for told in batch:
        graph.apply(told.changes, position=told.position, version=told.version)
    return graph


class Projector:
    """Projects the outbox into the graph, one cycle at a time."""

    def __init__(self, outbox: Outbox, writer: Writer, codec: Codec, *, batch_size: int, max_attempts: int) -> None:
        self._outbox, self._writer, self._codec = outbox, writer, codec
        self._batch_size, self._max_attempts = batch_size, max_attempts
        self._running = Lock()
        self._suspect_until: int | None = None
        self._outage = False

    def run_once(self) -> Cycle:
        """One cycle; returns at once where another is under way (G-21). Raises `LogUnavailable`."""
        if not self._running.acquire(blocking=False):
            return Cycle(overlapped=True)
        try:
            return self._cycle()
        finally:
            self._running.release()

    def look_back(self) -> None:
        """What had the process in hand that held the lock before? To be called once when the lock is taken.

        A row that was alone in hand when the process died is held responsible; of several each becomes a suspect,
        and is handled alone.
        """
        in_hand = self._outbox.in_hand()
        self._suspect_until = in_hand.last
        if in_hand.first is None or in_hand.first != in_hand.last:
            return
        error = "the process died while it handled this row"
        attempts = self._outbox.count_attempt(in_hand.first, error)
        log.warning("row was in hand when its process died", row=in_hand.first, attempts=attempts)
        if attempts >= self._max_attempts:
            self._outbox.park(in_hand.first)
        self._outbox.put_down()

    def _cycle(self) -> Cycle:
        started = perf_counter()
        if self._outage or self._suspect_until is not None:
            # Known before any row is in hand: a process that is ended while the graph is silent accuses no row.
            outage = self._probe()
            if outage is not None:
                return Cycle(outage=outage, seconds=perf_counter() - started)
        rows = self._outbox.take(1 if self._suspect_until is not None else self._batch_size)
        if self._suspect_until is not None and not (rows and rows[0].id <= self._suspect_until):
            self._suspect_until = None
        cycle = self._project(rows, started)
        if rows:
            log.info(
                "batch",
                rows=cycle.taken,
                marked=cycle.marked,
                failed=cycle.failed,
                parked=cycle.parked,
                outage=cycle.outage,
                seconds=round(cycle.seconds, 3),
            )
        return cycle

    def _probe(self) -> str | None:
        try:
            self._writer.ping()
        except GraphUnavailable as error:
            return self._report(error)
        self._outage = False
        return None

    def _report(self, error: GraphUnavailable) -> str:
        self._outage = True
        self._outbox.report_outage(str(error))
        log.warning("graph unavailable", error=str(error))
        return str(error)

    def _project(self, rows: Sequence[PendingRow], started: float) -> Cycle:
        outcome, outage = Outcome(), None
        batch = []
        for row in rows:
            try:
                batch.append(self._tell(row))
            except Exception as error:  # an event that cannot be told is the row's own fault
                outcome.failed.append((Told(row.lane, row.position, 0, (), row.id), error))
        try:
            write_apart(self._writer, batch, outcome)
        except GraphUnavailable as error:
            outage = error
        return Cycle(
            taken=len(rows),
            marked=len(outcome.applied),
            failed=len(outcome.failed),
            parked=self._settle(outcome),
            outage=None if outage is None else self._report(outage),
            seconds=perf_counter() - started,
        )

    def _settle(self, outcome: Outcome) -> int:
        """Mark what is done and count the attempts of what failed; returns how many rows were parked."""
        parked = 0
        for told, error in outcome.failed:
            assert told.row is not None
            log.warning("row failed", row=told.row, position=told.position, error=one_line(error))
            if self._outbox.count_attempt(told.row, one_line(error)) >= self._max_attempts:
                self._outbox.park(told.row)
                log.error("row parked with the rest of its stream", row=told.row, stream=told.lane[1])
                parked += 1
        # Last: as long as the batch is in hand, a process that dies here is known to have died here.
        self._outbox.mark([told.row for told in outcome.applied if told.row is not None])
        return parked

    def _tell(self, row: PendingRow) -> Told:
        """What the row's event changes, which is nothing for one that is gone or not part of the graph (G-13, G-24)."""
        if row.event is None:
            log.warning("event of the row is gone; marked", row=row.id, position=row.position)
            return Told(row.lane, row.position, 0, (), row.id)
        recorded = record.recorded(self._codec, row.event)
        changes = projections.changes(recorded)
        if changes is None:
            log.warning("event type is not shown by any projection; marked", row=row.id, type=recorded.type)
        return told_of(recorded, changes or (), row.id)


def told_of(recorded: Recorded, changes: tuple[Change, ...], row: int | None = None) -> Told:
    return Told((recorded.stream.tenant, recorded.stream.name), recorded.position, recorded.version, changes, row)


def one_line(error: Exception) -> str:
    """What an operator reads of the error; bounded, for it is stored with the row."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
