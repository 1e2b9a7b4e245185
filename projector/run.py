"""The schedule around the cycle: every interval, at once after a full batch or a hint, later after an outage."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
import structlog
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from app.domain.errors import Unavailable
from app.infrastructure.postgres.engine import connect
from app.infrastructure.postgres.hint import CHANNEL
from projector.cycle import Cycle
from projector.progress import Stopped, quiet

log = structlog.get_logger()

JOB: Final = "poll"
LONGEST_PAUSE: Final = timedelta(seconds=10)


class Loop:
    """Runs cycles until it is told to stop; `run_once` does the work, this only says when."""

    def __init__(
        self,
        run_once: Callable[[], Cycle],
        *,
        interval: timedelta,
        stopping: threading.Event,
        observe: Callable[[Cycle], None],
        beat: Callable[[], None] = quiet,
    ) -> None:
        self._run_once, self._interval = run_once, interval
        self._stopping, self._observe, self._beat = stopping, observe, beat
        self._scheduler = BackgroundScheduler(timezone=UTC)
        self._state = threading.Lock()
        self._busy = False
        self._hinted = False
        self._outages = 0
        self._not_before = 0.0

    def run(self) -> None:
        """Returns once the stop was asked for and the cycle under way has ended."""
        self._scheduler.add_job(
            self._wake,
            IntervalTrigger(seconds=self._interval.total_seconds(), timezone=UTC),
            id=JOB,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
            next_run_time=datetime.now(UTC),
        )
        self._scheduler.start()
        self._stopping.wait()
        self._scheduler.shutdown(wait=True)

    def hint(self) -> None:
        """There may be something to do: look now, or right after the cycle under way."""
        with self._state:
            self._hinted = True
            if self._busy or self._stopping.is_set():
                return
        with suppress(JobLookupError):  # the schedule ended between the lines
            self._scheduler.modify_job(JOB, next_run_time=datetime.now(UTC))

    def _wake(self) -> None:
        with self._state:
            self._busy = True
        again = time.monotonic() >= self._not_before
        while again:
            with self._state:
                self._hinted = False
            cycle = self._cycle()
            with self._state:
                more = cycle is not None and cycle.more
                again = (more or self._hinted) and self._outages == 0 and not self._stopping.is_set()
                self._busy = again
        with self._state:
            self._busy = False

    def _cycle(self) -> Cycle | None:
        try:
            cycle = self._run_once()
        except Stopped as stopped:
            log.info("cycle stopped", reason=str(stopped))
            return None
        except Unavailable as error:
            log.warning("cycle failed", error=str(error))
            self._beat()
            self._back_off()
            return None
        except Exception:
            # A mistake of ours: say so, and try again; health turns red for want of ended cycles.
            log.exception("cycle broke")
            self._back_off()
            return None
        if cycle.outage is None:
            self._outages = 0
        else:
            self._back_off()
        self._beat()
        self._observe(cycle)
        return cycle

    def _back_off(self) -> None:
        self._outages += 1
        pause = min(self._interval * 2 ** min(self._outages - 1, 10), LONGEST_PAUSE)
        # Half an interval of slack: the schedule's own tick must not just miss the end of the pause.
        self._not_before = time.monotonic() + (pause - self._interval / 2).total_seconds()


class Listener:
    """Passes notifications of the log on as hints; without it the interval finds the work."""

    def __init__(self, url: str, hint: Callable[[], None], stopping: threading.Event) -> None:
        self._url, self._hint, self._stopping = url, hint, stopping

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="hints", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with connect(self._url) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    # What was committed while nobody listened.
                    self._hint()
                    while not self._stopping.is_set():
                        for _ in connection.notifies(timeout=1, stop_after=1):
                            self._hint()
            except (Unavailable, psycopg.Error) as error:
                log.debug("no hints for now; polling finds the work", error=str(error))
                self._stopping.wait(1)
