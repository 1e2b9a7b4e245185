"""Several projectors on one graph: one works, the others stand by, and whoever asks for the graph gets it."""

from datetime import timedelta

import pytest

from app.domain.errors import Conflict, LogUnavailable
from app.infrastructure.graph.endpoint import GraphEndpoint
from projector.fold import Graph
from tests.projecting import (
    Interfering,
    ProjectorProcess,
    cut_off,
    offer,
    open_session,
    outlook,
    pending,
    projecting,
    projector_process,
    rows,
    untouched,
    verified,
    writing,
)
from tests.waiting import eventually

pytestmark = pytest.mark.graph

WAIT = timedelta(seconds=10)
A_FEW_INTERVALS = 3.0
"""Sixty of them; what takes time is the machine, and making sure of the constraints."""


def test_g12_one_works_and_the_other_stands_by_until_the_first_is_killed(
    database: str, empty_graph: GraphEndpoint
) -> None:
    with writing(database) as app, projector_process(database, empty_graph) as first:
        eventually(lambda: _holds(database, first))
        with projector_process(database, empty_graph) as second:
            eventually(lambda: "projector started" in second.output())
            for number in range(20):
                open_session(app, str(number))
            eventually(lambda: pending(database) == 0)
            assert _holds(database, first)
            assert '"batch"' not in second.output()
            first.kill()
            offer(app, "1")
            eventually(lambda: pending(database) == 0, within=A_FEW_INTERVALS)
            assert _holds(database, second)
            first.start()
            offer(app, "1")
            eventually(lambda: pending(database) == 0)
            assert _holds(database, second)
            # In good order it hands over without waiting for anything.
            assert second.stop() == 0
            eventually(lambda: _holds(database, first), within=A_FEW_INTERVALS)
    assert untouched(database)
    with projecting(database, empty_graph) as parts:
        assert verified(parts).events == 22


def test_a_replay_or_a_verification_elsewhere_makes_the_live_projector_yield_and_go_on_afterwards(
    database: str, empty_graph: GraphEndpoint
) -> None:
    with writing(database) as app, projector_process(database, empty_graph) as process:
        for number in range(10):
            open_session(app, str(number))
        eventually(lambda: pending(database) == 0)
        with projecting(database, empty_graph) as parts:
            for _ in range(3):
                assert verified(parts).events >= 10
                with parts.projector.exclusively(WAIT):
                    assert not _holds(database, process)
                    offer(app, "1")
                    parts.replay()
                    assert pending(database) == 1
                eventually(lambda: pending(database) == 0)
                assert _holds(database, process)
        assert process.stop() == 0
    assert untouched(database)


def test_who_does_not_yield_is_named_in_a_conflict(database: str, empty_graph: GraphEndpoint) -> None:
    with projector_process(database, empty_graph) as process, projecting(database, empty_graph) as parts:
        eventually(lambda: _holds(database, process))
        process.pause()
        try:
            with (
                pytest.raises(Conflict, match=f":{process.pid}:"),
                parts.projector.exclusively(timedelta(milliseconds=300)),
            ):
                pass
        finally:
            process.resume()
        with parts.projector.exclusively(WAIT):
            assert not _holds(database, process)


def test_who_has_the_graph_already_can_ask_for_it_and_gives_it_back_once(
    database: str, empty_graph: GraphEndpoint
) -> None:
    with projecting(database, empty_graph) as one, projecting(database, empty_graph) as other:
        assert not one.projector.run_once().standby
        assert other.projector.run_once().standby
        with one.projector.exclusively(WAIT):
            assert other.projector.run_once().standby
        assert not other.projector.run_once().standby


def test_a_drain_that_loses_the_graph_to_another_projector_does_not_end_as_done(
    database: str, empty_graph: GraphEndpoint
) -> None:
    with writing(database) as app, projecting(database, empty_graph) as one, projecting(database, empty_graph) as other:
        open_session(app, "1")
        with one.projector.exclusively(WAIT):
            cut_off(database)
            assert other.projector.run_once().marked == 1
            with pytest.raises(LogUnavailable):
                one.projector.drain()
            with pytest.raises(Conflict, match="another projector"):
                one.projector.drain()


def test_a_projector_that_gives_the_graph_back_alive_accuses_no_row(database: str, empty_graph: GraphEndpoint) -> None:
    """Its cycle broke with one row in hand, by a mistake of ours; then it was stopped in good order."""

    def break_(batch: Graph) -> None:
        raise KeyboardInterrupt

    with writing(database) as app:
        open_session(app, "1")
        with projecting(database, empty_graph, writer=lambda real: Interfering(real, before=break_)) as parts:
            with pytest.raises(KeyboardInterrupt):
                parts.projector.run_once()
            assert rows(database, "SELECT batch_first IS NOT NULL FROM projections") == [(True,)]
            parts.outbox.release()
        with projecting(database, empty_graph) as parts:
            assert verified(parts).events == 1
    assert untouched(database)


def _holds(database: str, process: ProjectorProcess) -> bool:
    return f":{process.pid}:" in (outlook(database).status().holder or "")
