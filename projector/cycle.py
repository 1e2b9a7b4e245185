"""One cycle of the projector: take pending rows, tell the graph what their events change, mark them.

An outage is not poison. While the graph is unavailable the cycle stops: nothing is marked and no attempt counted, so
that everything is tried again by itself. Any other failure is the row's own: it is isolated by halving the batch, and
after some attempts it is parked with the rest of its stream, while other streams go on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock as Mutex
from time import perf_counter

import structlog

from app.domain.errors import Conflict, GraphUnavailable
from app.infrastructure.postgres.codec import Codec
from projector.batch import Outcome, Told, Writer, reason, tell, write_apart
from projector.lock import Lock
from projector.outbox import Outbox, PendingRow

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did; `full` says that it took as many rows as it wanted, so that there may be more. Seconds by the
    monotonic clock."""

    taken: int = 0
    full: bool = False
    marked: int = 0
    failed: int = 0
    parked: int = 0
    seconds: float = 0.0
    outage: str | None = None
    standby: bool = False
    overlapped: bool = False

    def figures(self) -> dict[str, int | float | str | None]:
        """What the log line of a batch says."""
        return {
            "rows": self.taken,
            "marked": self.marked,
            "failed": self.failed,
            "parked": self.parked,
            "outage": self.outage,
            "seconds": round(self.seconds, 3),
        }

    @property
    def progressed(self) -> bool:
        return self.marked > 0 or self.parked > 0

    @property
    def more(self) -> bool:
        """Whether the next cycle should follow at once."""
        return self.full and self.progressed


Replay = Callable[[], object]
"""Replays the log from zero; the lock is held already."""


class Projector:
    """Projects the outbox into the graph, one cycle at a time."""

    def __init__(
        self,
        outbox: Outbox,
        writer: Writer,
        codec: Codec,
        replay: Replay,
        *,
        batch_size: int,
        max_attempts: int,
    ) -> None:
        self._outbox, self._writer, self._codec, self._replay = outbox, writer, codec, replay
        self._batch_size, self._max_attempts = batch_size, max_attempts
        self._running = Mutex()
        self._taken_over = False
        self._prepared = False
        self._exclusive = False
        self._suspect_until: int | None = None
        self._flowing = False

    def run_once(self) -> Cycle:
        """One cycle; returns at once where another is under way (G-21). Raises `LogUnavailable`."""
        if not self._running.acquire(blocking=False):
            return Cycle(overlapped=True)
        try:
            return self._cycle(perf_counter())
        finally:
            self._running.release()

    def drain(self) -> int:
        """Cycles until nothing is pending; returns how many rows were marked.

        Raises `GraphUnavailable`, `LogUnavailable`, and `Conflict` where another process holds the lock.
        """
        marked = 0
        while True:
            cycle = self.run_once()
            marked += cycle.marked
            if cycle.outage is not None:
                raise GraphUnavailable(cycle.outage)
            if cycle.standby:
                raise Conflict("another projector has taken the graph over; try again when it is done, or stop it")
            if not cycle.taken:
                return marked

    @contextmanager
    def exclusively(self, timeout: timedelta) -> Iterator[None]:
        """Hold the lock throughout: the holder, also one in another process, yields it after its cycle.

        Raises `Conflict` where it does not within `timeout`.
        """
        self._outbox.wait_for_lock(timeout)
        self._exclusive = True
        try:
            self._take_over()
            yield
        finally:
            self._exclusive = False
            self._outbox.release()

    def _cycle(self, started: float) -> Cycle:
        lock = self._outbox.acquire()
        if lock is Lock.ELSEWHERE:
            return Cycle(standby=True)
        try:
            self._taken_over = self._taken_over and lock is Lock.HELD
            if not self._taken_over:
                self._take_over()
            self._make_ready()
            limit = self._batch_size if self._suspect_until is None else 1
            cycle = self._project(self._take(limit), limit, started)
            # The graph has just written a full batch; what comes next are many rows again, of which none is accused.
            self._flowing = cycle.outage is None and cycle.full and limit > 1
        except GraphUnavailable as error:
            cycle = Cycle(outage=self._report(error), seconds=perf_counter() - started)
        if not self._exclusive:
            self._outbox.yield_to_waiters()
        return cycle

    def _take_over(self) -> None:
        """Look back at what the process had in hand that held the lock before.

        A row that was alone in hand when that process died is held responsible; of several each becomes a suspect,
        and is handled alone.
        """
        self._prepared = False
        in_hand = self._outbox.in_hand()
        # Where it is we who had something in hand, we only lost the connection: nobody died.
        if not in_hand.ours:
            self._suspect_until = in_hand.last
            if in_hand.first is not None and in_hand.first == in_hand.last:
                self._hold_responsible(in_hand.first)
        self._outbox.sign()
        self._taken_over = True

    def _hold_responsible(self, row: int) -> None:
        attempts = self._outbox.blame(row, "the process died while it handled this row")
        log.warning("a process died with this row in hand", row=row, attempts=attempts)
        if attempts >= self._max_attempts:
            self._outbox.park(row)

    def _make_ready(self) -> None:
        """Raises `GraphUnavailable`, before any row is in hand: whoever ends while the graph is silent accuses none."""
        if not self._prepared:
            self._writer.prepare()
            if self._outbox.in_hand().replaying:
                log.warning("finishing a replay that was cut short")
                self._replay()
            self._prepared = True
        elif not self._flowing:
            self._writer.ping()

    def _take(self, limit: int) -> Sequence[PendingRow]:
        rows = self._outbox.take(limit)
        if self._suspect_until is not None and not (rows and rows[0].id <= self._suspect_until):
            self._suspect_until = None
        return rows

    def _report(self, error: GraphUnavailable) -> str:
        self._flowing = False
        self._outbox.report_outage(str(error))
        log.warning("graph unavailable", error=str(error))
        return str(error)

    def _project(self, rows: Sequence[PendingRow], limit: int, started: float) -> Cycle:
        outcome, outage = Outcome(), None
        batch = []
        for row in rows:
            if outcome.follows_a_failure(row):
                continue
            try:
                batch.append(self._tell(row))
            except Exception as error:  # an event that cannot be told is the row's own fault
                outcome.failed.append((Told(row.lane, row.position, 0, (), row.id), error))
        try:
            write_apart(self._writer, batch, outcome)
        except GraphUnavailable as error:
            outage = error
        cycle = Cycle(
            taken=len(rows),
            full=len(rows) == limit,
            marked=len(outcome.applied),
            failed=len(outcome.failed),
            parked=self._settle(outcome, outage=outage is not None),
            outage=None if outage is None else self._report(outage),
            seconds=perf_counter() - started,
        )
        if rows:
            log.info("batch", **cycle.figures())
        return cycle

    def _settle(self, outcome: Outcome, *, outage: bool) -> int:
        """Mark what is done and count the attempts of what failed; returns how many rows were parked."""
        parked = 0
        for told, error in outcome.failed:
            assert told.row is not None
            log.warning("row failed", row=told.row, position=told.position, error=reason(error))
            if self._outbox.count_attempt(told.row, reason(error)) >= self._max_attempts:
                self._outbox.park(told.row)
                log.error("row parked with the rest of its stream", row=told.row, stream=told.lane[1])
                parked += 1
        # Last: as long as the batch is in hand, a process that dies here is known to have died here.
        if outcome.applied or not outage:
            self._outbox.mark(
                [told.row for told in outcome.applied if told.row is not None],
                head=max((told.position for told in outcome.applied if told.version), default=0),
            )
        return parked

    def _tell(self, row: PendingRow) -> Told:
        """What the event of the row changes, which is nothing if the log does not have it (G-24)."""
        if row.event is None:
            log.warning("event of the row is gone; marked", row=row.id, position=row.position)
            return Told(row.lane, row.position, 0, (), row.id)
        return tell(self._codec, row.event, outbox_row=row.id)
