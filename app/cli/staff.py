"""Children that a command starts one by one, keeps running, and stops in reverse; and how it is told to stop."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import FrameType
from typing import Final, NoReturn

from app.infrastructure.embedded.supervisor import Child, Supervisor

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_AGAIN: Final = timedelta(seconds=1)

Report = Callable[[str, str], None]


class Staff:
    """Each child is under its own supervisor, so that work between two starts has its place."""

    def __init__(self, stack: ExitStack, report: Report) -> None:
        self._stack, self._report = stack, report
        self._supervisors: list[Supervisor] = []

    def start(self, child: Child) -> float:
        """Returns how many seconds it took. Raises what the child raises; it is stopped with the others."""
        began = time.monotonic()
        supervisor = Supervisor([child], self._report)
        self._stack.enter_context(supervisor.running())
        self._supervisors.append(supervisor)
        return time.monotonic() - began

    def serve(self) -> NoReturn:
        """Start again what dies, until the process is interrupted."""
        while True:
            time.sleep(LOOK_AGAIN.total_seconds())
            self.look_after()

    def look_after(self) -> None:
        for supervisor in self._supervisors:
            supervisor.run_once()


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal interrupt alike, once: what is being stopped then is stopped in peace."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
