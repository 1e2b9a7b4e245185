"""Children that die are started again, with growing pauses, and all are stopped in reverse order."""

import pytest

from app.domain.errors import Unavailable
from app.infrastructure.embedded.supervisor import Supervisor


class FakeChild:
    """Lives, dies and refuses to start as told, and tells what was done to it."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self.name = name
        self.diary = diary
        self.lives = False
        self.startable = True

    def start(self) -> None:
        self.diary.append(f"start {self.name}")
        if not self.startable:
            raise Unavailable("no")
        self.lives = True

    def stop(self) -> None:
        self.diary.append(f"stop {self.name}")
        self.lives = False

    def alive(self) -> bool:
        return self.lives


class Watched:
    """Two children under a supervisor with a clock in the test's hand."""

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.reports: list[str] = []
        self.now = 0.0
        self.first, self.second = FakeChild("first", self.diary), FakeChild("second", self.diary)
        self.supervisor = Supervisor(
            [self.first, self.second],
            report=lambda name, what: self.reports.append(f"{name} {what}"),
            clock=lambda: self.now,
        )


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_children_start_in_order_and_stop_in_reverse(watched: Watched) -> None:
    with watched.supervisor.running():
        assert watched.supervisor.run_once() == ()

    assert watched.diary == ["start first", "start second", "stop second", "stop first"]


def test_a_start_that_fails_stops_what_runs(watched: Watched) -> None:
    watched.second.startable = False

    with pytest.raises(Unavailable), watched.supervisor.running():
        pytest.fail("it does not get here")

    assert watched.diary == ["start first", "start second", "stop second", "stop first"]


def test_a_dead_child_is_started_again_at_once(watched: Watched) -> None:
    with watched.supervisor.running():
        watched.first.lives = False

        assert watched.supervisor.run_once() == ("first",)
        assert watched.first.alive()
        assert watched.reports == ["first has died; starting it again in 0 s", "first was started again"]


def test_a_child_that_keeps_dying_is_started_after_growing_pauses(watched: Watched) -> None:
    starts = []
    with watched.supervisor.running():
        for second in range(40):
            watched.now = float(second)
            watched.first.lives = False
            if watched.supervisor.run_once():
                starts.append(second)

    assert starts == [0, 2, 5, 10, 19, 36]


def test_a_child_that_lived_long_enough_has_recovered(watched: Watched) -> None:
    with watched.supervisor.running():
        for now in (0.0, 1000.0, 2000.0):
            watched.now = now
            watched.first.lives = False
            assert watched.supervisor.run_once() == ("first",)


def test_a_child_that_cannot_be_started_does_not_keep_the_others_down(watched: Watched) -> None:
    with watched.supervisor.running():
        watched.first.startable = watched.first.lives = watched.second.lives = False

        assert watched.supervisor.run_once() == ("second",)
        assert "first could not be started again: no" in watched.reports
