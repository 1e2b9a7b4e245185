"""Children that are started in order, started again when they die, and stopped in reverse order."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from app.domain.errors import RetoldError
from app.infrastructure.embedded.process import bound_to_parent, end, open_log

FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=30)
# A child that has lived for this long has recovered; its next death begins with the first pause again.
STEADY_AFTER = timedelta(seconds=60)


class Child(Protocol):
    """A process under supervision; a second `start` gives it back under the same address."""

    @property
    def name(self) -> str:
        """What logs call it."""

    def start(self) -> None:
        """Return when it is ready; RetoldError when it cannot be."""

    def stop(self) -> None:
        """End it in good order; nothing happens to one that does not run."""

    def alive(self) -> bool:
        """Whether its process lives."""


@dataclass
class _Record:
    """How often a child died in a row and when it may be started again, by the monotonic clock."""

    deaths: int = 0
    started: float = 0.0
    due: float = 0.0


class Supervisor:
    """Holds children in the order in which they need each other."""

    def __init__(
        self,
        children: Sequence[Child],
        report: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._children = tuple(children)
        self._report = report
        self._clock = clock
        self._records = {child.name: _Record() for child in self._children}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start all; on the way out, also after a start that failed, stop all in reverse order."""
        with contextlib.ExitStack() as stack:
            for child in self._children:
                stack.callback(child.stop)
                child.start()
                self._records[child.name].started = self._clock()
            yield

    def run_once(self) -> tuple[str, ...]:
        """Start what has died and is due; the names of those that were started again."""
        return tuple(child.name for child in self._children if not child.alive() and self._revive(child))

    def run(self, over: threading.Event, every: timedelta = timedelta(seconds=1)) -> None:
        """Watch until `over` is set; in a thread that outlives the children, for they may end with it."""
        while not over.wait(every.total_seconds()):
            self.run_once()

    def _revive(self, child: Child) -> bool:
        record, now = self._records[child.name], self._clock()
        if not record.due:
            self._note_death(child, record, now)
        if now < record.due:
            return False
        record.due = 0.0
        record.started = now
        try:
            child.start()
        except RetoldError as error:
            self._report(child.name, f"could not be started again: {error}")
            return False
        self._report(child.name, "was started again")
        return True

    def _note_death(self, child: Child, record: _Record, now: float) -> None:
        steady = now - record.started > STEADY_AFTER.total_seconds()
        record.deaths = 1 if steady else record.deaths + 1
        # The first time at once: most deaths are accidents, and everything waits for this server.
        pause = timedelta(0) if record.deaths == 1 else min(FIRST_PAUSE * 2 ** (record.deaths - 2), LONGEST_PAUSE)
        record.due = now + pause.total_seconds()
        self._report(child.name, f"has died; starting it again in {pause.total_seconds():.0f} s")


class ProcessChild:
    """Any command as a child, its output in a log file or, without one, where ours goes."""

    def __init__(
        self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None, log_path: Path | None = None
    ) -> None:
        self.name = name
        self._argv = tuple(argv)
        self._env = env
        self._log_path = log_path
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start the command; it counts as ready at once."""
        self.stop()
        with open_log(self._log_path) if self._log_path else contextlib.nullcontext() as log:
            self._child = subprocess.Popen(  # noqa: S603 (our own argument list, no shell)
                bound_to_parent(self._argv, "TERM"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(self._env or {})},
                start_new_session=True,
            )

    def stop(self) -> None:
        if self._child is None:
            return
        end(self._child, signal.SIGTERM)
        self._child = None

    def kill(self) -> None:
        """End it as `kill -9` does."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
