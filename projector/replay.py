"""Replay from zero: wipe the projection, then tell the graph the whole log again, under the lock of the live projector.

The log is read in one snapshot. Rows that are still pending there are left to the live projection, which comes after
in its order; so within every stream events reach the graph as they happened. A replay that is killed is noted as
unfinished, and starts over: by hand, or with the next projector that takes the lock.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import structlog

from app.domain.errors import GraphUnavailable
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.log import PostgresLog, Snapshot
from projector.batch import Outcome, Told, Writer, reason, tell, write_apart
from projector.outbox import Outbox
from projector.progress import Progress, Stopped, quiet, silent
from projector.source import Stored, settled, total

log = structlog.get_logger()

LONGEST_PAUSE = timedelta(seconds=5)


class Rebuild(Writer, Protocol):
    """A writer that can also start from nothing."""

    def wipe(self, on_progress: Callable[[int], None]) -> int:
        """Remove the projection, in bounded transactions; returns how many nodes. Raises `GraphUnavailable`."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did, up to which position of the log. Parked are events that could not be told or written."""

    horizon: int
    wiped: int
    events: int
    parked: int
    seconds: float


@dataclass(slots=True)
class Held:
    """Streams that stopped at an event which cannot be projected: the error, and the positions from there on."""

    positions: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    errors: dict[tuple[str, str], str] = field(default_factory=dict)

    def stop(self, event: Stored | Told, error: Exception) -> None:
        known = self.positions.setdefault(event.lane, set())
        if event.position < min(known, default=event.position + 1):
            self.errors[event.lane] = reason(error)
        known.add(event.position)

    def holds(self, event: Stored | Told) -> bool:
        """Whether the event is, or comes after, one that its stream stopped at; it is noted if so."""
        known = self.positions.get(event.lane)
        if known is None or event.position < min(known):
            return False
        known.add(event.position)
        return True


@dataclass(frozen=True, slots=True)
class Replay:
    """Rebuilds the graph. The caller holds the lock.

    Raises `GraphUnavailable` once the graph has been away for longer than `patience`, `LogUnavailable`, and `Stopped`.
    """

    outbox: Outbox
    log: PostgresLog
    codec: Codec
    writer: Rebuild
    batch_size: int
    max_attempts: int
    patience: timedelta = timedelta(seconds=60)
    stopping: Callable[[], bool] = bool
    beat: Callable[[], None] = quiet

    def __call__(self, on_progress: Progress = silent) -> Replayed:
        started = time.perf_counter()
        self.outbox.begin_replay()
        self._patiently(self.writer.prepare)
        wiped = self._patiently(lambda: self.writer.wipe(self._wiping(on_progress)))
        held = Held()
        with self.log.snapshot() as snapshot:
            horizon = snapshot.head()
            events = self._tell(snapshot, held, on_progress)
        for lane, positions in held.positions.items():
            log.error("stream parked in replay", stream=lane[1], position=min(positions), error=held.errors[lane])
            self.outbox.park_positions(sorted(positions), attempts=self.max_attempts, error=held.errors[lane])
        self.outbox.end_replay(horizon)
        return Replayed(horizon, wiped, events, len(held.positions), time.perf_counter() - started)

    def _wiping(self, on_progress: Progress) -> Callable[[int], None]:
        def wiped(done: int) -> None:
            self._show_life()
            on_progress("wipe", done, None)

        return wiped

    def _show_life(self) -> None:
        """A replay may take longer than a projector may be silent. Raises `LogUnavailable` once the lock is lost."""
        self.beat()
        self.outbox.beat()

    def _tell(self, snapshot: Snapshot, held: Held, on_progress: Progress) -> int:
        expected, done = total(snapshot), 0
        on_progress("replay", done, expected)
        for batch in _batches(settled(snapshot), self.batch_size):
            if self.stopping():
                raise Stopped("the replay was stopped; it starts over with the next projector, or by hand")
            self._write(batch, held)
            done += len(batch)
            self._show_life()
            on_progress("replay", done, expected)
        return done

    def _write(self, batch: Sequence[Stored], held: Held) -> None:
        tellable = []
        for stored in batch:
            if held.holds(stored):
                continue
            try:
                tellable.append(tell(self.codec, stored.row))
            except Exception as error:  # an event that cannot be told stops its own stream only
                held.stop(stored, error)
        outcome = self._patiently(lambda: self._written(tellable))
        for told, refusal in outcome.failed:
            held.stop(told, refusal)
        for told in tellable:
            held.holds(told)

    def _written(self, batch: list[Told]) -> Outcome:
        outcome = Outcome()
        write_apart(self.writer, batch, outcome)
        return outcome

    def _patiently(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 (whatever `work` gives)
        """Do the work again while the graph is away: writing the same twice changes nothing."""
        deadline, pause = time.monotonic() + self.patience.total_seconds(), timedelta(milliseconds=250)
        while True:
            try:
                return work()
            except GraphUnavailable as error:
                if time.monotonic() > deadline or self.stopping():
                    raise
                log.warning("graph unavailable; the replay waits", error=str(error), seconds=pause.total_seconds())
                self._show_life()
                time.sleep(pause.total_seconds())
                pause = min(2 * pause, LONGEST_PAUSE)


def _batches(events: Iterator[Stored], size: int) -> Iterator[list[Stored]]:
    batch: list[Stored] = []
    for stored in events:
        batch.append(stored)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
