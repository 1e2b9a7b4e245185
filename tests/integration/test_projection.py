"""The way from the log to the graph and its proof, on real servers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import neo4j
import psycopg
import pytest
from structlog.testing import capture_logs

from app.bootstrap import Retold, retold
from app.domain.errors import Conflict, LogUnavailable, RuleBroken
from app.domain.session import Cause
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.settings import Settings
from projector.compare import Difference
from projector.fold import Graph
from projector.replay import Rebuild
from tests.projecting import outlook, projecting, rows, verified

pytestmark = pytest.mark.graph

TENANT = "default"


@contextmanager
def product(database: str) -> Iterator[Retold]:
    with retold(database, Settings(hints=False)) as app:
        yield app


def tell_a_story(app: Retold, session: str = "s1") -> None:
    """One of everything that the graph shows."""
    app.open_session(tenant=TENANT, session_id=session, user="user-1", project="atlas", agent="assistant")
    (message,) = app.accept_message(tenant=TENANT, session_id=session, message="m1", text="Olá 👩‍👩‍👧, قل لي")
    app.close_turn(tenant=TENANT, session_id=session, message="m1", answer="Claro.")
    (offer,) = app.offer_handoff(tenant=TENANT, session_id=session, to_agent="ux_designer", reason="A design question.")
    app.accept_handoff(tenant=TENANT, session_id=session, offer=offer.version, agent="ux_designer")
    app.close_session_abnormally(tenant=TENANT, session_id=session, cause=Cause.CRASHED)
    app.propose_hypothesis(
        tenant=TENANT,
        hypothesis_id=f"h-{session}",
        session_id=session,
        agent="assistant",
        description="Prefers short answers.",
        evidence=[message.id],
    )
    app.accept_hypothesis(tenant=TENANT, hypothesis_id=f"h-{session}", reviewer="reviewer-1")
    for competence in ("data", "design"):
        app.record_profile(
            tenant=TENANT,
            user="user-1",
            competence=competence,
            level=3,
            statement="Reads plans.",
            session_id=session,
            evidence=[message.id],
        )
    app.erase_profile(tenant=TENANT, user="user-1", competence="design", reason="asked for")
    app.publish_template(tenant=TENANT, name="kickoff", language="en", body="Hello {{name}}")
    app.activate_template(tenant=TENANT, name="kickoff", number=1)


@pytest.fixture
def cypher(empty_graph: GraphEndpoint) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Runs a statement on the graph behind the projector's back."""
    auth = (empty_graph.user, empty_graph.password)
    with neo4j.GraphDatabase.driver(empty_graph.url, auth=auth) as driver:

        def run(query: str, **parameters: object) -> list[dict[str, Any]]:
            found = driver.execute_query(query, parameters, database_=empty_graph.database)
            return [record.data() for record in found.records]

        yield run


class Unreachable:
    """A writer that must not be asked to write."""

    def __init__(self, writer: Rebuild) -> None:
        self._writer = writer

    def ping(self) -> None:
        self._writer.ping()

    def prepare(self) -> None:
        self._writer.prepare()

    def wipe(self, on_progress: Callable[[int], None]) -> int:
        return self._writer.wipe(on_progress)

    def write(self, batch: Graph) -> None:
        raise AssertionError(f"the graph was asked to write {batch.nodes}")


class TestProjecting:
    def test_the_graph_shows_who_handed_what_to_whom_and_why(
        self, database: str, empty_graph: GraphEndpoint, cypher: Callable[..., list[dict[str, Any]]]
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            assert parts.projector.run_once().marked == 9
            verified(parts)
        found = cypher(
            "MATCH (p:Project)<-[:IN_PROJECT]-(s:Session)-[:HAS_HANDOFF]->(h:Handoff), (h)-[:FROM]->(a:Agent), "
            "(h)-[:TO]->(b:Agent), (s)-[:OF_USER]->(u:User) "
            "RETURN p.id AS project, s.id AS session, s.cause AS cause, a.id AS giver, b.id AS taker, "
            "h.reason AS reason, u.id AS user"
        )
        assert found == [
            {
                "project": "atlas",
                "session": "s1",
                "cause": "crashed",
                "giver": "assistant",
                "taker": "ux_designer",
                "reason": "A design question.",
                "user": "user-1",
            }
        ]

    def test_g10_rows_of_other_consumers_are_not_touched(self, database: str, empty_graph: GraphEndpoint) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            parts.projector.drain()
        processed = rows(database, "SELECT DISTINCT aggregate_type FROM outbox WHERE processed_at IS NOT NULL")
        waiting = rows(database, "SELECT DISTINCT aggregate_type FROM outbox WHERE processed_at IS NULL ORDER BY 1")
        assert processed == [("graph_projection",)]
        assert waiting == [("session",), ("task",)]

    def test_g13_an_unknown_event_type_is_marked_and_logged_and_blocks_nobody(
        self, database: str, empty_graph: GraphEndpoint
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            _append_by_hand(database, "s0", "session.sung", "{}")
            tell_a_story(app)
            with capture_logs() as logs:
                cycle = parts.projector.run_once()
            assert (cycle.marked, cycle.failed) == (10, 0)
            assert any(line.get("type") == "session.sung" for line in logs)
            verified(parts)

    @pytest.mark.parametrize("gone", [True, False], ids=["event gone", "type without projection"])
    def test_g24_what_cannot_be_shown_is_marked_without_asking_the_graph(
        self, database: str, empty_graph: GraphEndpoint, gone: bool
    ) -> None:
        if gone:
            rows(
                database,
                "INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant) "
                "VALUES ('graph_projection', 'session-x', 4711, 'default')",
            )
        else:
            _append_by_hand(database, "s0", "session.opened", '{"user": "u", "project": "p", "agent": "a"}')
        with projecting(database, empty_graph, writer=Unreachable) as parts, capture_logs() as logs:
            cycle = parts.projector.run_once()
        assert (cycle.taken, cycle.marked, cycle.failed) == (1, 1, 0)
        # A position that the log does not have is no position that the graph has reached.
        assert outlook(database).status().head == (0 if gone else 1)
        assert any(line["log_level"] == "warning" and "marked" in line["event"] for line in logs)

    def test_g21_an_overlapping_cycle_returns_at_once(self, database: str, empty_graph: GraphEndpoint) -> None:
        writing, go_on = Event(), Event()

        class Slow(Unreachable):
            def write(self, batch: Graph) -> None:
                writing.set()
                assert go_on.wait(30)
                self._writer.write(batch)

        with product(database) as app, projecting(database, empty_graph, writer=Slow) as parts:
            tell_a_story(app)
            thread = Thread(target=parts.projector.run_once)
            thread.start()
            try:
                assert writing.wait(30)
                assert parts.projector.run_once().overlapped
            finally:
                go_on.set()
                thread.join(30)
            verified(parts)

    def test_g21_a_batch_is_as_large_as_the_setting_says(self, database: str, empty_graph: GraphEndpoint) -> None:
        with product(database) as app, projecting(database, empty_graph, batch_size=4) as parts:
            tell_a_story(app)
            assert [parts.projector.run_once().taken for _ in range(4)] == [4, 4, 1, 0]
            verified(parts)

    def test_g28_rows_that_come_again_change_nothing(
        self, database: str, empty_graph: GraphEndpoint, cypher: Callable[..., list[dict[str, Any]]]
    ) -> None:
        everything = "MATCH (n) OPTIONAL MATCH (n)-[r]->(m) RETURN properties(n) AS n, type(r) AS r, m.key AS m"
        with product(database) as app, projecting(database, empty_graph, batch_size=2) as parts:
            tell_a_story(app)
            parts.projector.drain()
            before = cypher(everything + " ORDER BY n.key, r, m")
            rows(database, "UPDATE outbox SET processed_at = NULL WHERE aggregate_type = 'graph_projection'")
            assert parts.projector.drain() == 9
            assert cypher(everything + " ORDER BY n.key, r, m") == before
            verified(parts)

    def test_a_take_over_that_the_database_cut_short_is_made_again_and_counts_once(
        self, database: str, empty_graph: GraphEndpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            ((first,),) = rows(database, "SELECT min(id) FROM outbox WHERE aggregate_type = 'graph_projection'")
            rows(database, "UPDATE projections SET holder = 'dead', batch_first = %s, batch_last = %s", first, first)
            with monkeypatch.context() as patch:
                patch.setattr(parts.outbox, "sign", _unavailable)
                with pytest.raises(LogUnavailable):
                    parts.projector.run_once()
            assert rows(database, "SELECT attempts FROM outbox WHERE id = %s", first) == [(1,)]
            parts.projector.drain()
            assert rows(database, "SELECT attempts FROM outbox WHERE id = %s", first) == [(1,)]
            verified(parts)

    def test_suspects_are_handled_alone_and_one_after_the_other_at_once(
        self, database: str, empty_graph: GraphEndpoint
    ) -> None:
        """A batch that a dead process had in hand must not take an interval for each of its rows."""
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            ((first, last),) = rows(
                database, "SELECT min(id), max(id) FROM outbox WHERE aggregate_type = 'graph_projection'"
            )
            rows(database, "UPDATE projections SET holder = 'dead', batch_first = %s, batch_last = %s", first, last)
            cycles = [parts.projector.run_once() for _ in range(10)]
            assert [(cycle.taken, cycle.more) for cycle in cycles] == [(1, True)] * 9 + [(0, False)]
            verified(parts)

    def test_one_line_is_logged_for_a_batch(self, database: str, empty_graph: GraphEndpoint) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            with capture_logs() as logs:
                parts.projector.run_once()
                parts.projector.run_once()
        assert [(line["event"], line["rows"], line["marked"]) for line in logs] == [("batch", 9, 9)]

    def test_x26_tenants_with_the_same_ids_do_not_meet_in_the_graph(
        self, database: str, empty_graph: GraphEndpoint, cypher: Callable[..., list[dict[str, Any]]]
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            for tenant in ("acme", "globex"):
                app.open_session(tenant=tenant, session_id="s", user="u", project="p", agent="a")
                app.offer_handoff(tenant=tenant, session_id="s", to_agent="b", reason=f"of {tenant}")
            parts.projector.drain()
            verified(parts)
        found = cypher(
            "MATCH (s:Session)-[:HAS_HANDOFF]->(h:Handoff)-[:TO]->(a:Agent) "
            "RETURN s.tenant AS s, h.tenant AS h, a.tenant AS a, h.reason AS reason ORDER BY s"
        )
        assert found == [
            {"s": tenant, "h": tenant, "a": tenant, "reason": f"of {tenant}"} for tenant in ("acme", "globex")
        ]

    def test_a_stream_with_an_event_that_only_a_newer_retold_knows_takes_no_decision(self, database: str) -> None:
        _append_by_hand(database, "s0", "session.sung", "{}")
        with product(database) as app, pytest.raises(RuleBroken, match=r"session\.sung.*upgrade this process"):
            app.close_session(tenant=TENANT, session_id="s0")
        assert rows(database, "SELECT count(*) FROM events") == [(1,)]


class TestReplay:
    def test_g29_a_graph_that_was_dropped_comes_back_equal(
        self, database: str, empty_graph: GraphEndpoint, cypher: Callable[..., list[dict[str, Any]]]
    ) -> None:
        everything = "MATCH (n) RETURN labels(n) AS labels, properties(n) AS properties ORDER BY n.key, labels"
        edges = "MATCH (a)-[r]->(b) RETURN a.key AS a, type(r) AS r, properties(r) AS p, b.key AS b ORDER BY a, r, b"
        with product(database) as app, projecting(database, empty_graph, batch_size=3) as parts:
            tell_a_story(app)
            parts.projector.drain()
            before = cypher(everything), cypher(edges)
            cypher("MATCH (n) DETACH DELETE n")
            heard: list[tuple[str, int, int | None]] = []
            with parts.projector.exclusively(timedelta(seconds=5)):
                done = parts.replay(lambda *said: heard.append(said))
            assert (cypher(everything), cypher(edges)) == before
            assert (done.events, done.parked) == (9, 0)
            assert heard[-1] == ("replay", 9, 9)
            verified(parts)

    def test_nodes_of_others_in_the_same_graph_survive_a_replay(
        self, database: str, empty_graph: GraphEndpoint, cypher: Callable[..., list[dict[str, Any]]]
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            parts.projector.drain()
            cypher("CREATE (:Foreign {name: 'theirs'})")
            with parts.projector.exclusively(timedelta(seconds=5)):
                parts.replay()
            verified(parts)
        assert cypher("MATCH (f:Foreign) RETURN f.name AS name") == [{"name": "theirs"}]

    def test_a_projector_that_does_not_yield_is_named(self, database: str, empty_graph: GraphEndpoint) -> None:
        with projecting(database, empty_graph) as holder, projecting(database, empty_graph) as other:
            with (
                holder.projector.exclusively(timedelta(seconds=5)),
                pytest.raises(Conflict, match=r"holds the graph and did not yield within 0\.2 s"),
                other.projector.exclusively(timedelta(seconds=0.2)),
            ):
                pass
            with other.projector.exclusively(timedelta(seconds=5)):
                assert outlook(database).status().holder is not None

    def test_events_that_are_pending_are_left_to_the_live_projection_in_their_order(
        self, database: str, empty_graph: GraphEndpoint
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            parts.projector.drain()
            app.erase_profile(tenant=TENANT, user="user-1", competence="data", reason="asked for again")
            with parts.projector.exclusively(timedelta(seconds=5)):
                done = parts.replay()
                assert done.events == 9
                assert outlook(database).status().pending == 1
            verified(parts)

    def test_long_work_gives_signs_of_life(self, database: str, empty_graph: GraphEndpoint) -> None:
        """Else health would call a replay dead that takes longer than a projector may be silent."""
        beats: list[None] = []
        with product(database) as app, projecting(database, empty_graph, batch_size=1) as parts:
            tell_a_story(app)
            parts.projector.drain()
            rows(database, "UPDATE projections SET last_attempt_at = clock_timestamp() - interval '1 hour'")
            with parts.projector.exclusively(timedelta(seconds=5)):
                replace(parts.replay, beat=lambda: beats.append(None))()
            assert (outlook(database).status().seconds_since_attempt or 3600) < 600
            assert len(beats) >= 9
            rows(database, "UPDATE projections SET last_attempt_at = clock_timestamp() - interval '1 hour'")
            with parts.projector.exclusively(timedelta(seconds=5)):
                replace(parts.verify, beat=lambda: beats.append(None))()
            assert len(beats) > 50

    def test_who_has_lost_the_connection_of_its_lock_changes_nothing_any_more(
        self, database: str, empty_graph: GraphEndpoint
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            parts.outbox.acquire()
            rows(database, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted")
            with pytest.raises(LogUnavailable):
                parts.outbox.take(10)
            with pytest.raises(LogUnavailable, match="and the lock with it"):
                parts.outbox.end_replay(4711)
            assert outlook(database).status().head == 0
            verified(parts)


class TestVerify:
    @pytest.mark.parametrize(
        ("damage", "expected"),
        [
            (
                "MATCH (h:Handoff) DETACH DELETE h",
                {("missing", "node", "Handoff"), ("missing", "edge", "HAS_HANDOFF"), ("missing", "edge", "FROM"),
                 ("missing", "edge", "TO")},
            ),
            ("CREATE (:Agent {key: 'default/ghost'})", {("extra", "node", "Agent")}),
            ("MATCH (s:Session) SET s.status = 'open'", {("different", "node", "Session")}),
            ("MATCH (s:Session) SET s.colour = 'red'", {("different", "node", "Session")}),
            ("MATCH (:Session)-[r:OF_USER]->() DELETE r", {("missing", "edge", "OF_USER")}),
            (
                "MATCH (h:Hypothesis), (a:Agent {id: 'ux_designer'}) CREATE (h)-[:TARGETS {version: 1}]->(a)",
                {("extra", "edge", "TARGETS")},
            ),
            ("MATCH (:Template)-[r:ACTIVE]->() SET r.version = 99", {("different", "edge", "ACTIVE")}),
        ],
    )  # fmt: skip
    def test_drift_is_found_and_named(
        self,
        database: str,
        empty_graph: GraphEndpoint,
        cypher: Callable[..., list[dict[str, Any]]],
        damage: str,
        expected: set[tuple[str, str, str]],
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            parts.projector.drain()
            cypher(damage)
            verdict = parts.verify()
            assert not verdict.holds
            assert {(each.kind, each.what, each.type) for each in verdict.differences} == expected
            with parts.projector.exclusively(timedelta(seconds=5)):
                parts.replay()
            verified(parts)

    def test_a_property_that_differs_is_shown_with_both_values(
        self, database: str, empty_graph: GraphEndpoint, cypher: Callable[..., list[dict[str, Any]]]
    ) -> None:
        with product(database) as app, projecting(database, empty_graph) as parts:
            tell_a_story(app)
            parts.projector.drain()
            cypher("MATCH (s:Session) SET s.cause = 'boredom'")
            verdict = parts.verify()
        assert verdict.differences == (
            Difference("different", "node", "Session", "default/s1", None, "cause", "crashed", "boredom"),
        )

    def test_an_event_that_cannot_be_told_is_drift(self, database: str, empty_graph: GraphEndpoint) -> None:
        position = _append_by_hand(database, "s0", "session.handoff_offered", '{"nonsense": true}')
        rows(database, "UPDATE outbox SET processed_at = now()")
        with projecting(database, empty_graph) as parts, parts.projector.exclusively(timedelta(seconds=5)):
            verdict = parts.verify()
        assert not verdict.holds
        assert [each.position for each in verdict.untellable] == [position]


def _unavailable() -> None:
    raise LogUnavailable("gone for a moment")


def _append_by_hand(database: str, session: str, type_: str, data: str) -> int:
    """An event as no code of today would write it, with its row; returns its position."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "INSERT INTO streams (tenant, stream, kind, version) VALUES ('default', %s, 'session', 1)",
            (f"session-{session}",),
        )
        found = connection.execute(
            "INSERT INTO events (id, tenant, stream, version, type, schema, data, meta) "
            "VALUES (gen_random_uuid(), 'default', %s, 1, %s, 1, %s, '{}') RETURNING position",
            (f"session-{session}", type_, json.dumps(json.loads(data))),
        ).fetchone()
        assert found is not None
        connection.execute(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant) "
            "VALUES ('graph_projection', %s, %s, 'default')",
            (f"session-{session}", found[0]),
        )
        return int(found[0])
