"""A row that can never be projected: it is found, it is set aside with the rest of its stream, and all others go on."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from app.bootstrap import Retold, use_cases
from app.domain.errors import Conflict, LogUnavailable, NotFound
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.graph.errors import GraphRefused
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import make_engine
from app.infrastructure.postgres.hint import no_hint
from app.infrastructure.postgres.log import PostgresLog
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from projector.fold import Graph
from projector.replay import Rebuild
from tests.projecting import (
    Interfering,
    cut_off,
    live,
    offer,
    offers_of,
    open_session,
    outlook,
    pending,
    projecting,
    rows,
    told_of,
    verified,
    writing,
)

pytestmark = pytest.mark.graph

ATTEMPTS = 3
WAIT = timedelta(seconds=10)

# By hand, for no use case writes what cannot be read. The schema stays 1: the damage is in the data.
DAMAGED = """
WITH stream AS (
    INSERT INTO streams AS s (tenant, stream, kind, version) VALUES ('acme', %s, split_part(%s, '-', 1), 1)
    ON CONFLICT (tenant, stream) DO UPDATE SET version = s.version + 1
    RETURNING tenant, stream, version
), event AS (
    INSERT INTO events (id, tenant, stream, version, type, schema, data, meta)
    SELECT gen_random_uuid(), tenant, stream, version, %s, 1, %s::jsonb, '{}' FROM stream
    RETURNING position, tenant, stream
)
INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant)
SELECT 'graph_projection', stream, position, tenant FROM event
"""
HUGE = f'{{"number": {2**70}, "language": "en", "hash": "0", "body": "words"}}'


class Refusing:
    """Stands between the projector and the graph, and refuses whatever says something about certain sessions."""

    def __init__(self, *sessions: str) -> None:
        self.sessions = set(sessions)

    def __call__(self, writer: Rebuild) -> Rebuild:
        return Interfering(writer, before=self._refuse)

    def _refuse(self, batch: Graph) -> None:
        for session in self.sessions:
            if told_of(batch, session):
                raise GraphRefused(f"nothing of session {session}")


@pytest.mark.parametrize(
    ("stream", "type_", "data", "error"),
    [
        ("session-poison", "session.handoff_offered", '{"offer": true}', "a stored session.handoff_offered cannot"),
        ("template-poison", "template.version_published", HUGE, "the graph cannot execute this statement"),
    ],
    ids=["an event that cannot be read", "a value that the graph has no form for"],
)
def test_g23_others_go_on_and_the_row_is_parked_with_the_rest_of_its_stream(
    database: str, empty_graph: GraphEndpoint, stream: str, type_: str, data: str, error: str
) -> None:
    with writing(database) as app, projecting(database, empty_graph, max_attempts=ATTEMPTS) as parts:
        open_session(app, "1")
        for _ in range(2):
            rows(database, DAMAGED, stream, stream, type_, data)
        open_session(app, "2")
        first = parts.projector.run_once()
        assert (first.taken, first.marked, first.failed, first.parked) == (4, 2, 1, 0)
        parts.projector.drain()
        head, behind = outlook(database).parked()
        assert (head.stream, head.attempts) == (stream, ATTEMPTS)
        assert error in head.error
        assert (behind.behind, behind.attempts) == (head.id, 0)
        assert live(empty_graph, "MATCH (s:Session) RETURN s.id ORDER BY s.id") == [("1",), ("2",)]
        rows(database, DAMAGED, stream, stream, type_, data)
        offer(app, "2")
        assert parts.projector.drain() == 1
        assert [row.behind for row in outlook(database).parked()] == [None, head.id, head.id]
        verdict = verified(parts)
        assert (verdict.events, verdict.parked) == (3, 3)
        with parts.projector.exclusively(WAIT):
            parts.replay()
        assert verified(parts).events == 3


def test_g23_a_retry_once_the_graph_takes_it_restores_the_order_of_the_stream(
    database: str, empty_graph: GraphEndpoint
) -> None:
    refusing = Refusing("poison")
    with writing(database) as app, projecting(database, empty_graph, writer=refusing, max_attempts=ATTEMPTS) as parts:
        open_session(app, "poison", offers=3)
        open_session(app, "other", offers=3)
        parts.projector.drain()
        offer(app, "poison")
        app.close_session(tenant="acme", session_id="poison")
        parts.projector.drain()
        assert offers_of(empty_graph, "other") == [2, 3, 4]
        assert offers_of(empty_graph, "poison") == []
        head, *behind = outlook(database).parked()
        assert len(behind) == 4
        with pytest.raises(Conflict):
            app.retry_parked_row(row=behind[0].id)
        with pytest.raises(NotFound):
            app.retry_parked_row(row=head.id - 1)

        # Not cured yet: it is parked again, after as many attempts.
        app.retry_parked_row(row=head.id)
        parts.projector.drain()
        assert [(row.id, row.attempts) for row in outlook(database).parked()] == [
            (head.id, ATTEMPTS),
            *((row.id, 0) for row in behind),
        ]

        refusing.sessions.clear()
        assert app.retry_parked_row(row=head.id) == 5
        assert verified(parts).events == 8
        assert offers_of(empty_graph, "poison") == [2, 3, 4, 5]
        assert outlook(database).parked() == []
        assert live(empty_graph, "MATCH (s:Session {id: 'poison'}) RETURN s.status") == [("closed",)]


def test_g23_a_retry_by_a_newer_projector_tells_what_the_older_could_not_read(
    database: str, empty_graph: GraphEndpoint
) -> None:
    newer = Codec(
        tuple(
            replace(each, schema=2, upcasters={1: dict}) if each.name == "session.handoff_offered" else each
            for each in Codec().types
        )
    )
    with _writing_with(newer, database) as app, projecting(database, empty_graph, max_attempts=ATTEMPTS) as older:
        open_session(app, "1", offers=3)
        app.publish_template(tenant="acme", name="hello", language="en", body="words")
        older.projector.drain()
        offer(app, "1")
        older.projector.drain()
        assert verified(older).events == 1
        head, *behind = outlook(database).parked()
        assert "upgrade this process" in head.error
        assert len(behind) == 3
        with projecting(database, empty_graph, codec=newer) as upgraded:
            app.retry_parked_row(row=head.id)
            assert verified(upgraded).events == 5
        assert offers_of(empty_graph, "1") == [2, 3, 4, 5]


def test_g23_a_skipped_row_stays_out_of_the_graph_in_every_replay_and_its_reason_is_an_event(
    database: str, empty_graph: GraphEndpoint
) -> None:
    with writing(database) as app, projecting(database, empty_graph, max_attempts=ATTEMPTS) as parts:
        open_session(app, "1", offers=2)
        stream = "session-1"
        rows(database, DAMAGED, stream, stream, "session.handoff_offered", '{"offer": true}')
        healthy = '{"from_agent": "a", "to_agent": "b", "project": "moon", "user": "ada"}'
        rows(database, DAMAGED, stream, stream, "session.handoff_offered", healthy)
        parts.projector.drain()
        assert offers_of(empty_graph, "1") == [2, 3]
        (head, _) = outlook(database).parked()
        assert app.skip_parked_row(row=head.id, reason="written by a bug", operator="on-call") == 1
        assert verified(parts).events == 3
        assert offers_of(empty_graph, "1") == [2, 3, 5]
        (skipped,) = app.log.read(types=["projection.row_skipped"])
        assert (skipped.event.position, skipped.event.reason, skipped.meta.actor) == (
            head.position,
            "written by a bug",
            "on-call",
        )
        for _ in range(2):
            with parts.projector.exclusively(WAIT):
                assert parts.replay().parked == 0
            assert verified(parts).events == 3
            assert offers_of(empty_graph, "1") == [2, 3, 5]


def test_g32_fifty_poison_rows_do_not_starve_the_fifty_first(database: str, empty_graph: GraphEndpoint) -> None:
    refusing = Refusing(*(f"poison-{number}" for number in range(50)))
    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=refusing, batch_size=10, max_attempts=ATTEMPTS) as parts,
    ):
        for number in range(50):
            open_session(app, f"poison-{number}")
        open_session(app, "healthy")
        cycles = 0
        while offers_of(empty_graph, "healthy") != [2]:
            parts.projector.run_once()
            cycles += 1
            # Five batches of nothing but poison, each of which is tried as often as a row may be.
            assert cycles <= 5 * ATTEMPTS + 1
        parts.projector.drain()
        assert len(outlook(database).parked()) == 50
        assert verified(parts).events == 1


def test_g23_a_poison_row_is_found_by_halving_and_its_neighbours_are_applied_in_the_same_cycle(
    database: str, empty_graph: GraphEndpoint
) -> None:
    refusing = Refusing("poison")
    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=refusing, max_attempts=ATTEMPTS) as parts,
    ):
        for number in range(30):
            open_session(app, f"before-{number}")
        open_session(app, "poison", offers=3)
        for number in range(40):
            open_session(app, f"after-{number}", offers=2)
        cycle = parts.projector.run_once()
        assert (cycle.taken, cycle.marked, cycle.failed, cycle.parked) == (113, 110, 1, 0)
        assert pending(database) == 3
        assert live(empty_graph, "MATCH (h:Handoff) RETURN count(h)") == [(110,)]
        parts.projector.drain()
        assert [row.stream for row in outlook(database).parked()] == ["session-poison"] * 3
        assert verified(parts).events == 110


def test_g23_a_stream_that_is_refused_in_a_replay_is_parked_and_the_others_are_told(
    database: str, empty_graph: GraphEndpoint
) -> None:
    refusing = Refusing()
    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=refusing, batch_size=4, max_attempts=ATTEMPTS) as parts,
    ):
        for session in ("1", "poison", "2"):
            open_session(app, session, offers=5)
        assert verified(parts).events == 15
        refusing.sessions.add("poison")
        with parts.projector.exclusively(WAIT):
            assert parts.replay().parked == 1
        assert verified(parts).events == 10
        head, *behind = outlook(database).parked()
        assert (head.stream, head.attempts, len(behind)) == ("session-poison", ATTEMPTS, 4)
        refusing.sessions.clear()
        assert app.retry_parked_row(row=head.id) == 5
        assert verified(parts).events == 15


def test_a_parking_that_fails_leaves_the_row_pending_and_the_next_cycle_parks_it(
    database: str, empty_graph: GraphEndpoint
) -> None:
    impatient = f"{database}?options=-c%20lock_timeout%3D200ms"
    with (
        writing(database) as app,
        projecting(impatient, empty_graph, writer=Refusing("poison"), max_attempts=1) as parts,
    ):
        open_session(app, "poison", offers=2)
        open_session(app, "other")
        with closing(psycopg.connect(database)) as operator:
            # The attempt of the first row can be counted, but the second row cannot be set aside behind it.
            operator.execute(
                "SELECT FROM outbox WHERE aggregate_type = 'graph_projection' AND event_position = 3 FOR UPDATE"
            )
            with pytest.raises(LogUnavailable):
                parts.projector.run_once()
            assert outlook(database).parked() == []
            assert pending(database) == 3
        parts.projector.drain()
        head, behind = outlook(database).parked()
        assert (head.stream, behind.behind) == ("session-poison", head.id)
        assert verified(parts).events == 1


def test_a_parking_cut_off_by_the_server_leaves_the_row_pending(
    database: str, empty_graph: GraphEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        writing(database) as app,
        projecting(database, empty_graph, writer=Refusing("poison"), max_attempts=1) as parts,
    ):
        open_session(app, "poison", offers=2)
        park: Callable[[int], None] = parts.outbox.park

        def park_cut_off(row: int) -> None:
            cut_off(database)
            park(row)

        with monkeypatch.context() as patch:
            patch.setattr(parts.outbox, "park", park_cut_off)
            with pytest.raises(LogUnavailable):
                parts.projector.run_once()
        assert outlook(database).parked() == []
        assert pending(database) == 2
        parts.projector.drain()
        assert len(outlook(database).parked()) == 2


@contextmanager
def _writing_with(codec: Codec, database: str) -> Iterator[Retold]:
    engine = make_engine(database)
    try:
        yield use_cases(PostgresBegin(engine, codec, uuid7, no_hint), PostgresLog(engine, codec))
    finally:
        engine.dispose()
