"""When the projector runs its cycle, and when not."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from app.domain.errors import LogUnavailable
from projector.cycle import Cycle
from projector.progress import Stopped, quiet
from projector.run import Loop
from tests.waiting import eventually

LONG = timedelta(hours=1)
"""An interval after which no test waits: what runs before it was asked for in another way."""


class Cycles:
    """A `run_once` that gives what it is told to, in turn, then nothing to do."""

    def __init__(self, *planned: Cycle | Exception) -> None:
        self._planned = list(planned)
        self.runs = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def __call__(self) -> Cycle:
        self.runs += 1
        self.meanwhile()
        found = self._planned.pop(0) if self._planned else Cycle()
        if isinstance(found, Exception):
            raise found
        return found


@contextmanager
def looping(
    cycles: Cycles,
    *,
    interval: timedelta = LONG,
    observe: Callable[[Cycle], None] = lambda _: None,
    beat: Callable[[], None] = quiet,
) -> Iterator[Loop]:
    stopping = threading.Event()
    loop = Loop(cycles, interval=interval, stopping=stopping, observe=observe, beat=beat)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield loop
    finally:
        stopping.set()
        thread.join(10)
        assert not thread.is_alive()


def test_g21_the_next_cycle_follows_at_once_after_a_full_batch() -> None:
    cycles = Cycles(
        Cycle(taken=10, full=True, marked=10), Cycle(taken=10, full=True, marked=10), Cycle(taken=3, marked=3)
    )
    with looping(cycles):
        eventually(lambda: cycles.runs == 3)
        with pytest.raises(AssertionError):
            eventually(lambda: cycles.runs > 3, within=0.3)


def test_a_full_batch_that_gets_nowhere_waits_for_the_interval() -> None:
    cycles = Cycles(Cycle(taken=10, full=True, failed=10), Cycle(taken=10, full=True, failed=10))
    with looping(cycles), pytest.raises(AssertionError):
        eventually(lambda: cycles.runs > 1, within=0.3)


def test_without_hints_the_interval_finds_the_work() -> None:
    cycles = Cycles()
    with looping(cycles, interval=timedelta(milliseconds=20)):
        eventually(lambda: cycles.runs > 3)


def test_a_hint_runs_a_cycle_before_the_interval_is_over() -> None:
    cycles = Cycles()
    with looping(cycles) as loop:
        eventually(lambda: cycles.runs == 1)
        loop.hint()
        eventually(lambda: cycles.runs == 2)


def test_a_hint_during_a_cycle_is_not_lost() -> None:
    cycles, started, go_on = Cycles(), threading.Event(), threading.Event()

    def hold_up() -> None:
        started.set()
        assert go_on.wait(10)

    cycles.meanwhile = hold_up
    with looping(cycles) as loop:
        assert started.wait(10)
        loop.hint()
        go_on.set()
        eventually(lambda: cycles.runs == 2)


@pytest.mark.parametrize("trouble", [Cycle(outage="gone"), LogUnavailable("gone"), ZeroDivisionError()])
def test_after_trouble_the_loop_goes_on_by_itself(trouble: Cycle | Exception) -> None:
    cycles = Cycles(trouble, trouble, Cycle(taken=1, marked=1))
    seen: list[Cycle] = []
    with looping(cycles, interval=timedelta(milliseconds=20), observe=seen.append):
        eventually(lambda: any(cycle.marked for cycle in seen))


def test_hints_do_not_hurry_a_loop_that_backs_off() -> None:
    cycles = Cycles(*[Cycle(outage="gone")] * 50)
    with looping(cycles, interval=timedelta(seconds=1)) as loop:
        eventually(lambda: cycles.runs == 1)
        for _ in range(20):
            loop.hint()
            time.sleep(0.005)
        assert cycles.runs == 1


def test_g21_a_stop_waits_for_the_cycle_under_way_and_for_nothing_else() -> None:
    cycles, started, go_on = Cycles(), threading.Event(), threading.Event()

    def hold_up() -> None:
        started.set()
        assert go_on.wait(10)

    cycles.meanwhile = hold_up
    stopping = threading.Event()
    loop = Loop(cycles, interval=LONG, stopping=stopping, observe=lambda _: None)
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert started.wait(10)
    stopping.set()
    thread.join(0.2)
    assert thread.is_alive()
    go_on.set()
    thread.join(10)
    assert not thread.is_alive()
    assert cycles.runs == 1


def test_a_cycle_that_found_no_database_has_ended_all_the_same() -> None:
    """The projector is not stuck, PostgreSQL is away; health says so by itself."""
    beats: list[None] = []
    with looping(Cycles(LogUnavailable("gone")), beat=lambda: beats.append(None)):
        eventually(lambda: len(beats) == 1)


def test_a_replay_that_is_told_to_stop_is_no_mistake_of_ours() -> None:
    with capture_logs() as logs, looping(Cycles(Stopped("told to"))):
        eventually(lambda: [line["event"] for line in logs] == ["cycle stopped"])
