"""The graph away before, during and after a batch: everything waits, nothing is accused, and all drains by itself."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from app.domain.errors import GraphUnavailable
from app.infrastructure.graph.client import GraphClient
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.graph.errors import GraphRefused
from projector.cycle import Cycle
from projector.fold import Graph
from projector.replay import Rebuild
from projector.writer import GraphWriter
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
    rows,
    told_of,
    untouched,
    verified,
    writing,
)
from tests.proxy import Proxy, proxy_to
from tests.servers import GraphServer
from tests.waiting import eventually

pytestmark = pytest.mark.graph

TIMEOUT = 1.5
ENDS_WITHIN = TIMEOUT + 1.5
"""The client's own second of grace, and half a one for a busy machine."""

FAULTS: dict[str, Callable[[Proxy], None]] = {
    "refused": Proxy.refuse,
    "silent": Proxy.silence,
    "half_open": Proxy.half_open,
}


@pytest.fixture
def proxy(empty_graph: GraphEndpoint) -> Iterator[Proxy]:
    where = urlsplit(empty_graph.url)
    assert where.hostname
    assert where.port
    with proxy_to(where.port, where.hostname) as proxy:
        yield proxy


@pytest.fixture
def far_graph(empty_graph: GraphEndpoint, proxy: Proxy) -> GraphEndpoint:
    """The graph of the run, empty, on the other side of the proxy."""
    return replace(empty_graph, url=f"bolt://127.0.0.1:{proxy.port}")


def test_g22_a_graph_that_is_gone_for_100_cycles_accuses_no_row(
    database: str, far_graph: GraphEndpoint, proxy: Proxy
) -> None:
    with writing(database) as app, projecting(database, far_graph, batch_size=2) as parts:
        open_session(app, "before", offers=1)
        assert parts.projector.run_once().marked == 1
        proxy.refuse()
        for number in range(5):
            open_session(app, str(number))
        cycles = [parts.projector.run_once() for _ in range(100)]
        assert all(cycle.outage is not None and not cycle.marked and not cycle.failed for cycle in cycles)
        assert untouched(database)
        assert pending(database) == 5
        assert outlook(database).status().outage is not None
        proxy.open()
        assert verified(parts).events == 6
        assert outlook(database).status().outage is None


def test_g22_the_process_waits_out_an_outage_and_drains_unaided(
    database: str, far_graph: GraphEndpoint, proxy: Proxy
) -> None:
    proxy.refuse()
    with (
        writing(database) as app,
        projector_process(database, far_graph, graph_timeout=2 * TIMEOUT) as process,
    ):
        for number in range(5):
            open_session(app, str(number))
        eventually(lambda: outlook(database).status().outage)
        proxy.open()
        eventually(lambda: pending(database) == 0, within=40)
        proxy.silence()
        offer(app, "1")
        eventually(lambda: outlook(database).status().outage)
        proxy.cut()
        proxy.open()
        eventually(lambda: pending(database) == 0, within=40)
        assert process.stop() == 0
        assert untouched(database)
        with projecting(database, far_graph) as parts:
            assert verified(parts).events == 6


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("when", ["at the start", "between cycles", "while it writes"])
def test_g22_every_fault_of_the_network_is_an_outage_within_the_timeout(
    database: str, far_graph: GraphEndpoint, proxy: Proxy, fault: str, when: str
) -> None:
    strike = {when: lambda: FAULTS[fault](proxy)}

    def struck(moment: str) -> None:
        strike.pop(moment, lambda: None)()

    def interfering(writer: Rebuild) -> Interfering:
        return Interfering(writer, before=lambda _: struck("while it writes"))

    with (
        writing(database) as app,
        projecting(database, far_graph, writer=interfering, graph_timeout=TIMEOUT, graph_connect_timeout=1) as parts,
    ):
        struck("at the start")
        if when != "at the start":
            eventually(lambda: parts.projector.run_once().outage is None)
        struck("between cycles")
        open_session(app, "1", offers=3)
        assert _ends_as_outage(parts.projector.run_once)
        assert untouched(database)
        assert pending(database) == 3
        proxy.cut()
        proxy.open()
        eventually(lambda: parts.projector.run_once().marked == 3)
    with projecting(database, far_graph) as parts:
        assert verified(parts).events == 3


@pytest.mark.parametrize(
    "wrong", [{"password": "wrong"}, {"database": "missing"}], ids=["a wrong password", "a missing database"]
)
def test_g22_a_graph_that_turns_us_away_is_an_outage(
    database: str, empty_graph: GraphEndpoint, wrong: dict[str, str]
) -> None:
    with writing(database) as app:
        open_session(app, "1", offers=3)
        with projecting(database, replace(empty_graph, **wrong), graph_timeout=TIMEOUT) as parts:
            assert _ends_as_outage(parts.projector.run_once)
    assert untouched(database)
    assert pending(database) == 3
    assert live(empty_graph, "MATCH (n) RETURN count(n)") == [(0,)]
    with projecting(database, empty_graph) as parts:
        assert verified(parts).events == 3


def test_g22_a_line_cut_at_any_byte_of_a_batch_leaves_all_of_it_pending_and_nothing_half_told(
    database: str, empty_graph: GraphEndpoint, far_graph: GraphEndpoint, proxy: Proxy
) -> None:
    with writing(database) as app:
        for number in range(3):
            open_session(app, str(number), offers=2)
    cycle, enough = _cut_after(1 << 20, database, far_graph, proxy)
    assert cycle.outage is None
    cycle, _ = _cut_after(enough, database, far_graph, proxy)
    assert cycle.outage is None
    # The last bytes are those of the COMMIT.
    for size in (0, enough // 4, enough // 2, *range(enough - 6, enough)):
        cycle, _ = _cut_after(size, database, far_graph, proxy)
        assert cycle.outage is not None
        assert (cycle.marked, cycle.failed, cycle.parked) == (0, 0, 0)
        assert untouched(database)
        assert pending(database) == 6
        assert live(empty_graph, "MATCH (n) RETURN count(n)") == [(0,)]
    proxy.open()
    with projecting(database, far_graph) as parts:
        assert verified(parts).events == 6


def test_g22_a_commit_of_unknown_outcome_is_an_outage_and_telling_it_again_changes_nothing(
    database: str, empty_graph: GraphEndpoint
) -> None:
    lost = ["the answer to the commit was lost"]

    def lose_the_answer(batch: Graph) -> None:
        if lost:
            raise GraphUnavailable(lost.pop())

    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=lambda real: Interfering(real, after=lose_the_answer)) as parts,
    ):
        open_session(app, "1", offers=3)
        assert parts.projector.run_once().outage == "the answer to the commit was lost"
        assert live(empty_graph, "MATCH (n:Handoff) RETURN count(n)") == [(3,)]
        assert untouched(database)
        assert pending(database) == 3
        assert verified(parts).events == 3


def test_g22_what_was_written_before_the_outage_of_a_batch_stays_marked(
    database: str, empty_graph: GraphEndpoint
) -> None:
    """A row that the graph refuses splits the batch; the outage comes between its parts."""
    gone = threading.Event()

    def trouble(batch: Graph) -> None:
        if gone.is_set() or told_of(batch, "after"):
            gone.set()
            raise GraphUnavailable("gone in the middle of the batch")

    def refuse(batch: Graph) -> None:
        if told_of(batch, "poison"):
            raise GraphRefused("this one never")
        trouble(batch)

    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=lambda real: Interfering(real, before=refuse)) as parts,
    ):
        for session in ("1", "2", "poison", "after", "3", "4"):
            open_session(app, session)
        cycle = parts.projector.run_once()
        assert cycle.outage is not None
        assert (cycle.taken, cycle.marked, cycle.failed) == (6, 2, 1)
        assert live(empty_graph, "MATCH (s:Session) RETURN s.id ORDER BY s.id") == [("1",), ("2",)]
        assert rows(
            database,
            "SELECT aggregate_id, attempts FROM outbox "
            "WHERE aggregate_type = 'graph_projection' AND processed_at IS NULL ORDER BY id",
        ) == [("session-poison", 1), ("session-after", 0), ("session-3", 0), ("session-4", 0)]


def test_an_outage_is_not_taken_for_a_success(database: str, empty_graph: GraphEndpoint) -> None:
    gone = threading.Event()

    def fail(batch: Graph) -> None:
        if gone.is_set():
            raise GraphUnavailable("it answers, and does not write")

    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=lambda real: Interfering(real, before=fail)) as parts,
    ):
        open_session(app, "1")
        parts.projector.run_once()
        success = outlook(database).status().last_success_at
        gone.set()
        offer(app, "1")
        parts.projector.run_once()
        first = outlook(database).status()
        parts.projector.run_once()
        second = outlook(database).status()
        assert first.last_success_at == second.last_success_at == success
        assert first.outage_since == second.outage_since is not None


@pytest.fixture(scope="module")
def mortal_graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphServer]:
    """A graph server that the tests of this file share, kill and pause."""
    server = servers.private_graph(tmp_path_factory.mktemp("mortal"))
    try:
        server.start()
        with GraphClient(server.endpoint, timeout=timedelta(minutes=1), connect_timeout=timedelta(minutes=1)) as client:
            # A new Neo4j takes seconds for its first constraints.
            GraphWriter(client).prepare()
        yield server
    finally:
        server.stop()


def test_g22_a_graph_killed_in_mid_batch_and_started_again_loses_and_accuses_nothing(
    database: str, mortal_graph: GraphServer
) -> None:
    servers.wipe(mortal_graph.endpoint)
    batches: list[Graph] = []

    def kill(batch: Graph) -> None:
        batches.append(batch)
        if len(batches) == 3:
            mortal_graph.kill()

    with (
        writing(database) as app,
        projecting(
            database, mortal_graph.endpoint, writer=lambda real: Interfering(real, before=kill), batch_size=10
        ) as parts,
    ):
        for number in range(50):
            open_session(app, str(number))
        with pytest.raises(GraphUnavailable):
            parts.projector.drain()
        assert pending(database) == 30
        for _ in range(100):
            assert parts.projector.run_once().outage is not None
        assert untouched(database)
        mortal_graph.start()
        assert verified(parts).events == 50


def test_g22_a_graph_killed_under_a_running_projector(database: str, mortal_graph: GraphServer) -> None:
    servers.wipe(mortal_graph.endpoint)
    with (
        writing(database) as app,
        projector_process(database, mortal_graph.endpoint, batch_size=5) as process,
    ):
        for number in range(60):
            open_session(app, str(number))
            if number == 37:
                mortal_graph.kill()
        eventually(lambda: outlook(database).status().outage)
        mortal_graph.start()
        eventually(lambda: pending(database) == 0, within=60)
        assert process.alive
        assert untouched(database)
        with projecting(database, mortal_graph.endpoint) as parts:
            assert verified(parts).events == 60


def test_g22_a_stopped_graph_is_an_outage_within_the_timeout(database: str, mortal_graph: GraphServer) -> None:
    servers.wipe(mortal_graph.endpoint)
    with (
        writing(database) as app,
        projecting(
            database,
            mortal_graph.endpoint,
            writer=lambda real: Interfering(real, before=lambda _: mortal_graph.pause()),
            graph_timeout=TIMEOUT,
        ) as parts,
    ):
        open_session(app, "1", offers=3)
        try:
            assert _ends_as_outage(parts.projector.run_once)
            assert _ends_as_outage(parts.projector.run_once)
        finally:
            mortal_graph.resume()
        assert untouched(database)
        assert pending(database) == 3
    with projecting(database, mortal_graph.endpoint) as parts:
        assert verified(parts).events == 3


def _ends_as_outage(run_once: Callable[[], Cycle]) -> bool:
    started = time.monotonic()
    cycle = run_once()
    seconds = time.monotonic() - started
    assert seconds < ENDS_WITHIN, f"{seconds:.1f} s"
    assert (cycle.marked, cycle.failed, cycle.parked) == (0, 0, 0)
    return cycle.outage is not None


def _cut_after(size: int, database: str, graph: GraphEndpoint, proxy: Proxy) -> tuple[Cycle, int]:
    """One cycle of a new projector on all rows, with the line cut after so many bytes; the graph is empty before.

    Also returns how many bytes it sent.
    """
    proxy.open()
    servers.wipe(graph)
    rows(database, "UPDATE outbox SET processed_at = NULL WHERE aggregate_type = 'graph_projection'")
    proxy.cut_after(size)
    with projecting(database, graph) as parts:
        return parts.projector.run_once(), size - proxy.left
