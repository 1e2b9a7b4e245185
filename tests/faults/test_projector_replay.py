"""A replay that is killed, that loses its graph, that writers overtake: in the end the graph is the log."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from app.infrastructure.graph.endpoint import GraphEndpoint
from projector.fold import Graph
from tests import servers
from tests.projecting import (
    Interfering,
    live,
    offer,
    open_session,
    outlook,
    pending,
    projecting,
    projector_process,
    untouched,
    verified,
    writing,
)
from tests.servers import GraphServer
from tests.waiting import eventually

pytestmark = pytest.mark.graph

WAIT = timedelta(seconds=10)
EVERYTHING = "MATCH (n) OPTIONAL MATCH (n)-[r]->(m) RETURN labels(n), properties(n), type(r), properties(r), m.key"


@pytest.mark.parametrize("batch", [1, 3], ids=["after the wipe", "half-way"])
def test_g29_a_killed_replay_is_known_as_unfinished_and_the_next_projector_finishes_it(
    database: str, empty_graph: GraphEndpoint, batch: int
) -> None:
    with writing(database) as app, projecting(database, empty_graph, batch_size=10) as parts:
        for number in range(40):
            open_session(app, str(number))
        assert verified(parts).events == 40
        orders = ("-m", "tests.faults.dying_projector", "replay", str(batch))
        with projector_process(database, empty_graph, program=orders, batch_size=10) as dying:
            assert dying.wait() == -signal.SIGKILL
        assert live(empty_graph, "MATCH (h:Handoff) RETURN count(h)") == [((batch - 1) * 10,)]
        assert outlook(database).status().replay_started_at is not None
        offer(app, "1")
        with projector_process(database, empty_graph) as process:
            eventually(lambda: pending(database) == 0)
            assert process.stop() == 0
        assert outlook(database).status().replay_started_at is None
        assert verified(parts, drain=False).events == 41
    assert untouched(database)


def test_g29_a_replay_while_writers_append(database: str, empty_graph: GraphEndpoint) -> None:
    over = threading.Event()

    with writing(database) as app, projecting(database, empty_graph, batch_size=20) as parts:
        for number in range(50):
            open_session(app, str(number))
        parts.projector.drain()

        def append() -> None:
            number = 0
            while not over.wait(0.05):
                number += 1
                offer(app, str(number % 50))
                open_session(app, f"new-{number}", tenant="other")

        writer = threading.Thread(target=append)
        writer.start()
        try:
            with parts.projector.exclusively(WAIT):
                replayed = parts.replay()
                parts.projector.drain()
                during = parts.verify()
        finally:
            over.set()
            writer.join()
        assert replayed.events == 50
        assert during.events >= 50
        assert verified(parts).events >= during.events


def test_g29_an_empty_log_a_second_replay_and_a_lost_graph(database: str, empty_graph: GraphEndpoint) -> None:
    with writing(database) as app, projecting(database, empty_graph) as parts:
        with parts.projector.exclusively(WAIT):
            assert parts.replay().events == 0
        assert verified(parts).nodes == 0
        for number in range(5):
            open_session(app, str(number), offers=2)
        parts.projector.drain()
        told = _sorted(live(empty_graph, EVERYTHING))
        for _ in range(2):
            with parts.projector.exclusively(WAIT):
                assert parts.replay().events == 10
            assert verified(parts).events == 10
            assert _sorted(live(empty_graph, EVERYTHING)) == told
        servers.wipe(empty_graph)
        with parts.projector.exclusively(WAIT):
            assert not parts.verify().holds
            parts.replay()
        assert verified(parts).events == 10
        assert _sorted(live(empty_graph, EVERYTHING)) == told


def test_g29_a_graph_killed_and_started_again_in_the_middle_of_a_replay(
    database: str, faulty_graph: Callable[[], GraphServer]
) -> None:
    graph = faulty_graph()
    written: list[Graph] = []
    killed = threading.Event()

    def kill(batch: Graph) -> None:
        written.append(batch)
        if len(written) == 6:
            graph.kill()
            killed.set()

    with (
        _started_again(graph, killed),
        writing(database) as app,
        projecting(
            database, graph.endpoint, writer=lambda real: Interfering(real, before=kill), batch_size=10
        ) as parts,
    ):
        for number in range(40):
            open_session(app, str(number))
        parts.projector.drain()
        with parts.projector.exclusively(WAIT):
            assert parts.replay().events == 40
        assert verified(parts, drain=False).events == 40
        assert killed.is_set()
    assert untouched(database)


@contextmanager
def _started_again(graph: GraphServer, killed: threading.Event) -> Iterator[None]:
    """Start the server as soon as it was killed."""
    over = threading.Event()

    def start() -> None:
        killed.wait()
        if not over.is_set():
            graph.start()
        # A server dies with the thread that has started it.
        over.wait()

    thread = threading.Thread(target=start)
    thread.start()
    try:
        yield
    finally:
        over.set()
        killed.set()
        thread.join()


def _sorted(found: list[tuple[object, ...]]) -> list[str]:
    return sorted(map(repr, found))
