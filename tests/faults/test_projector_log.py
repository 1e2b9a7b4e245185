"""Transactions that commit late or never end, and a PostgreSQL that goes away: nothing is lost, nobody is held up."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import psycopg
import pytest

from app.domain import session
from app.domain.errors import LogUnavailable
from app.domain.events import Meta
from app.infrastructure.embedded.postgres import EmbeddedPostgres
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import make_engine
from app.infrastructure.postgres.hint import no_hint
from app.infrastructure.postgres.migration import migrate
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from app.use_cases.ports import Append
from projector.fold import Graph
from tests.projecting import (
    Interfering,
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
from tests.waiting import eventually

pytestmark = pytest.mark.graph


def test_of_two_transactions_the_one_with_the_lower_position_commits_last_and_both_are_projected(
    database: str, empty_graph: GraphEndpoint
) -> None:
    with writing(database) as app, projecting(database, empty_graph) as parts:
        for each in ("late", "early"):
            app.open_session(tenant="acme", session_id=each, user="ada", project="moon", agent="planner")
        with _uncommitted_offer(database, "late") as position:
            assert offer(app, "early").position > position
            assert parts.projector.drain() == 1
            assert verified(parts).events == 1
        assert outlook(database).status().head > position
        assert parts.projector.drain() == 1
        assert offers_of(empty_graph, "late") == offers_of(empty_graph, "early") == [2]
        assert verified(parts).events == 2


def test_a_replay_between_the_two_loses_neither(database: str, empty_graph: GraphEndpoint) -> None:
    with writing(database) as app, projecting(database, empty_graph) as parts:
        for each in ("late", "early"):
            app.open_session(tenant="acme", session_id=each, user="ada", project="moon", agent="planner")
        with _uncommitted_offer(database, "late"):
            offer(app, "early")
            parts.projector.drain()
            with parts.projector.exclusively(timedelta(seconds=5)):
                assert parts.replay().events == 1
        assert verified(parts).events == 2


def test_a_transaction_that_writes_another_table_and_idles_holds_nobody_up(
    database: str, empty_graph: GraphEndpoint
) -> None:
    rows(database, "CREATE TABLE elsewhere (id int)")
    with (
        writing(database) as app,
        projecting(database, empty_graph) as parts,
        closing(psycopg.connect(database)) as idle,
    ):
        idle.execute("INSERT INTO elsewhere VALUES (1)")
        for number in range(3):
            open_session(app, str(number))
            assert parts.projector.drain() == 1
        assert verified(parts).events == 3


@pytest.mark.parametrize("seconds", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_a_commit_that_is_delayed_is_projected_after_it(
    database: str, empty_graph: GraphEndpoint, seconds: float
) -> None:
    with writing(database) as app, projector_process(database, empty_graph):
        for each in ("late", "early"):
            app.open_session(tenant="acme", session_id=each, user="ada", project="moon", agent="planner")
        with _uncommitted_offer(database, "late"):
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                # Others go on all the while, not only once.
                offer(app, "early")
                eventually(lambda: pending(database) == 0)
                time.sleep(seconds / 20)
        eventually(lambda: offers_of(empty_graph, "late") == [2])
        with projecting(database, empty_graph) as parts:
            verified(parts)
    assert untouched(database)


@pytest.fixture(scope="module")
def mortal_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that the tests of this file share and kill."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("mortal"))
    try:
        server.start()
        migrate(server.url)
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("restart", ["stop", "kill"])
def test_x15_postgresql_gone_in_mid_batch_is_an_error_and_the_next_cycles_recover_unaided(
    mortal_postgres: EmbeddedPostgres, empty_graph: GraphEndpoint, restart: str
) -> None:
    database = mortal_postgres.url
    gone = threading.Event()

    def take_away(batch: Graph) -> None:
        if not gone.is_set():
            gone.set()
            getattr(mortal_postgres, restart)()

    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=lambda real: Interfering(real, before=take_away)) as parts,
    ):
        open_session(app, restart, offers=3)
        with pytest.raises(LogUnavailable):
            parts.projector.run_once()
        for _ in range(20):
            with pytest.raises(LogUnavailable):
                parts.projector.run_once()
        mortal_postgres.start()
        assert pending(database) == 3
        assert parts.projector.run_once().marked == 3
        assert untouched(database)
        with parts.projector.exclusively(timedelta(seconds=5)):
            # What an earlier test told of this log is not in this graph.
            parts.replay()
        verified(parts)


def test_x15_the_process_survives_a_restart_of_postgresql(
    mortal_postgres: EmbeddedPostgres, empty_graph: GraphEndpoint
) -> None:
    database = mortal_postgres.url
    with writing(database) as app:
        open_session(app, "restart")
        with projector_process(database, empty_graph) as process:
            eventually(lambda: pending(database) == 0)
            for _ in range(2):
                mortal_postgres.kill()
                eventually(lambda: "cycle failed" in process.output().splitlines()[-1])
                mortal_postgres.start()
                eventually(lambda: offer(app, "restart"))
                eventually(lambda: pending(database) == 0, within=40)
            assert process.stop() == 0
    assert untouched(database)


@contextmanager
def _uncommitted_offer(database: str, session_id: str) -> Iterator[int]:
    """A handoff is offered by a transaction that commits only when the block ends; gives its position."""
    engine = make_engine(database)
    events = (session.HandoffOffered("planner", "critic", "moon", "ada", "a second look"),)
    try:
        with PostgresBegin(engine, Codec(), uuid7, no_hint)() as work:
            (offered,) = work.append(Append(session.stream("acme", session_id), events, "any", Meta()))
            yield offered.position
    finally:
        engine.dispose()
