"""The projector killed with SIGKILL at any moment: nothing is lost, nothing is told twice, and only a row that kills it
again and again is set aside."""

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import psycopg
import pytest

from app.bootstrap import Retold
from app.domain.errors import LogUnavailable
from app.infrastructure.graph.endpoint import GraphEndpoint
from projector.fold import Graph
from tests.projecting import (
    Interfering,
    ProjectorProcess,
    cut_off,
    live,
    offer,
    offers_of,
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
from tests.proxy import proxy_to
from tests.waiting import eventually

pytestmark = pytest.mark.graph

KILLS = 12
MOMENTS = random.Random(20_260_801)


def test_g34_killed_at_random_moments_under_live_writes_the_graph_is_the_log(
    database: str, empty_graph: GraphEndpoint
) -> None:
    # More attempts than kills: chance may strike at the same row each time, and it did.
    with (
        writing(database) as app,
        projector_process(database, empty_graph, batch_size=20, max_attempts=2 * KILLS) as process,
    ):
        with _live_writes(app):
            for _ in range(KILLS):
                eventually(lambda: _holds(database, process))
                # Somewhere in the work, not at a moment that the test would have to know.
                time.sleep(MOMENTS.uniform(0, 0.4))
                process.kill()
                process.start()
        eventually(lambda: pending(database) == 0, within=60)
        assert process.stop() == 0
        assert rows(database, "SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL") == [(0,)]
        with projecting(database, empty_graph) as parts:
            assert verified(parts).events > 100


def test_g34_killed_between_the_commit_of_the_graph_and_the_marking(database: str, empty_graph: GraphEndpoint) -> None:
    with writing(database) as app:
        open_session(app, "1", offers=3)
    assert _runs(database, empty_graph, "after") == -signal.SIGKILL
    assert offers_of(empty_graph, "1") == [2, 3, 4]
    assert pending(database) == 3
    told = live(empty_graph, "MATCH (n) RETURN elementId(n), properties(n) ORDER BY elementId(n)")
    with projecting(database, empty_graph) as parts:
        assert parts.projector.drain() == 3
        assert untouched(database)
        verified(parts)
    assert live(empty_graph, "MATCH (n) RETURN elementId(n), properties(n) ORDER BY elementId(n)") == told


def test_g34_killed_while_the_marking_waits_for_a_lock(database: str, empty_graph: GraphEndpoint) -> None:
    with writing(database) as app, psycopg.connect(database) as other:
        open_session(app, "1", offers=2)
        other.execute("SELECT FROM outbox WHERE aggregate_type = 'graph_projection' FOR UPDATE")
        with projector_process(database, empty_graph) as process:
            eventually(lambda: offers_of(empty_graph, "1") == [2, 3])
            assert pending(database) == 2
            process.kill()
        # What the dead process has left waiting in the server must not mark in its name.
        cut_off(database)
        other.rollback()
        assert pending(database) == 2
        with projecting(database, empty_graph) as parts:
            assert parts.projector.drain() == 2
            verified(parts)
        assert untouched(database)


def test_a_row_that_kills_the_process_three_times_is_parked(database: str, empty_graph: GraphEndpoint) -> None:
    with writing(database) as app:
        open_session(app, "killer")
        assert _deaths(database, empty_graph, "at", "killer") == 3
        offer(app, "killer")
        open_session(app, "neighbour")
        assert _deaths(database, empty_graph, "at", "killer") == 0
        (head, behind) = outlook(database).parked()
        assert (head.stream, head.attempts, head.behind) == ("session-killer", 3, None)
        assert head.error == "the process died while it handled this row"
        assert behind.behind == head.id
        with projecting(database, empty_graph) as parts:
            assert verified(parts).events == 1
            # The process was mended: the operator gives the row another try.
            assert app.retry_parked_row(row=head.id) == 2
            assert verified(parts).events == 3
    assert offers_of(empty_graph, "killer") == [2, 3]


def test_a_row_that_kills_the_process_is_found_in_the_middle_of_a_batch_and_its_neighbours_go_on(
    database: str, empty_graph: GraphEndpoint
) -> None:
    with writing(database) as app:
        for number in range(4):
            open_session(app, f"before-{number}")
        open_session(app, "killer", offers=2)
        for number in range(4):
            open_session(app, f"after-{number}")
    # The first death accuses nobody, for the batch has ten rows; then each is handled alone.
    assert _deaths(database, empty_graph, "at", "killer") == 4
    assert [(row.stream, row.attempts) for row in outlook(database).parked()] == [
        ("session-killer", 3),
        ("session-killer", 0),
    ]
    assert rows(database, "SELECT count(*) FROM outbox WHERE attempts > 0") == [(1,)]
    with projecting(database, empty_graph) as parts:
        assert verified(parts).events == 8


def test_a_process_that_is_killed_while_the_graph_is_silent_accuses_no_row(
    database: str, empty_graph: GraphEndpoint
) -> None:
    where = urlsplit(empty_graph.url)
    assert where.hostname
    assert where.port
    with writing(database) as app, proxy_to(where.port, where.hostname) as proxy:
        far_graph = replace(empty_graph, url=f"bolt://127.0.0.1:{proxy.port}")
        with projector_process(database, far_graph, graph_timeout=30) as process:
            open_session(app, "1")
            eventually(lambda: rows(database, "SELECT head FROM projections") == [(2,)])
            proxy.silence()
            eventually(lambda: _is_stuck(database))
            offer(app, "1")
            for _ in range(4):
                eventually(lambda: _is_stuck(database))
                process.kill()
                process.start()
                eventually(lambda: _holds(database, process))
            assert untouched(database)
            proxy.cut()
            proxy.open()
            process.kill()
            process.start()
            eventually(lambda: pending(database) == 0)
        assert untouched(database)
    with projecting(database, empty_graph) as parts:
        assert verified(parts).events == 2


def test_a_living_process_that_loses_its_connection_to_the_log_accuses_no_row(
    database: str, empty_graph: GraphEndpoint
) -> None:
    lost: list[Graph] = []

    def lose(batch: Graph) -> None:
        if len(lost) < 4:
            lost.append(batch)
            cut_off(database)

    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=lambda real: Interfering(real, before=lose)) as parts,
    ):
        open_session(app, "1")
        for _ in range(4):
            with pytest.raises(LogUnavailable):
                parts.projector.run_once()
            assert pending(database) == 1
        assert parts.projector.run_once().marked == 1
        assert untouched(database)
        assert verified(parts).events == 1


@contextmanager
def _live_writes(app: Retold) -> Iterator[None]:
    """Three writers at work, until the block ends; a writer that fails fails the test."""
    over = threading.Event()
    failures: list[BaseException] = []

    def write(writer: int) -> None:
        number = 0
        try:
            while not over.wait(0.05):
                number += 1
                session = f"{writer}-{number}"
                open_session(app, session, tenant=f"tenant-{writer % 2}")
                app.accept_message(tenant=f"tenant-{writer % 2}", session_id=session, message="1", text="words")
                app.close_session(tenant=f"tenant-{writer % 2}", session_id=session)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures


def _runs(database: str, graph: GraphEndpoint, *orders: str) -> int:
    """The exit code of one dying projector."""
    with projector_process(database, graph, program=("-m", "tests.faults.dying_projector", *orders)) as process:
        return process.wait()


def _deaths(database: str, graph: GraphEndpoint, *orders: str) -> int:
    """How often a dying projector died before it could end well."""
    for deaths in range(10):
        code = _runs(database, graph, *orders)
        if code == 0:
            return deaths
        assert code == -signal.SIGKILL
    raise AssertionError("it goes on dying")


def _holds(database: str, process: ProjectorProcess) -> bool:
    """Whether this process holds the graph."""
    return f":{process.pid}:" in (outlook(database).status().holder or "")


def _is_stuck(database: str) -> bool:
    """Whether the last cycle began long ago, by the measure of these tests."""
    return (outlook(database).status().seconds_since_attempt or 0) > 0.6
