"""Whatever happened, in whatever batches, order among streams and repetition it is told: the graph is the log."""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bootstrap import Retold
from app.domain.errors import RetoldError
from app.domain.session import Cause
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.use_cases.ports import EventLog
from projector import projections
from projector.bootstrap import Parts
from projector.compare import compare
from projector.fold import Graph
from projector.schema import EDGE_TYPES, LABELS
from tests import servers
from tests.projecting import projecting, rows, untouched, verified, writing

pytestmark = pytest.mark.graph

WAIT = timedelta(seconds=10)


@dataclass(frozen=True)
class Step:
    """A call of a use case, which may be refused; it can cite some of the events that there are by then."""

    name: str
    arguments: dict[str, object]
    cited: tuple[int, ...] = ()

    def __call__(self, app: Retold, known: Sequence[UUID]) -> object:
        evidence = {"evidence": [known[each % len(known)] for each in self.cited]} if self.cited and known else {}
        return getattr(app, self.name)(**self.arguments, **evidence)


TENANT = st.sampled_from(["acme", "a/c"])
SESSION = st.sampled_from(["1", "a/b"])
USER = st.sampled_from(["ada", "böb"])
AGENT = st.sampled_from(["planner", "critic", "writer"])
COMPETENCE = st.sampled_from(["backend", "writing"])
HYPOTHESIS = st.sampled_from(["h1", "h2"])
TEMPLATE = st.sampled_from(["hello", "bye"])
WORDS = st.sampled_from(["words", "andere Wörter", "3 > 2 {{name}} 'x' \\ \N{SNOWMAN}"])
CITED = st.lists(st.integers(0, 100), max_size=3).map(tuple)


def _step(verb: str, /, *, cites: bool = False, **arguments: st.SearchStrategy[object]) -> st.SearchStrategy[Step]:
    chosen = st.fixed_dictionaries({"tenant": TENANT, **arguments})
    return st.builds(Step, st.just(verb), chosen, CITED if cites else st.just(()))


OFFER = _step("offer_handoff", session_id=SESSION, to_agent=AGENT, reason=WORDS)
STEPS = st.one_of(
    OFFER,
    OFFER,
    OFFER,
    _step("accept_handoff", session_id=SESSION, offer=st.integers(2, 5), agent=AGENT),
    _step("accept_message", session_id=SESSION, message=st.sampled_from(["m1", "m2"]), text=st.just("question")),
    _step("close_turn", session_id=SESSION, message=st.sampled_from(["m1", "m2"]), answer=WORDS),
    st.one_of(
        _step("open_session", session_id=st.just("3"), user=USER, project=st.just("mars"), agent=AGENT),
        _step("close_session", session_id=SESSION),
        _step("close_session_abnormally", session_id=SESSION, cause=st.sampled_from(Cause)),
    ),
    _step(
        "propose_hypothesis", cites=True, hypothesis_id=HYPOTHESIS, session_id=SESSION, agent=AGENT, description=WORDS
    ),
    _step("accept_hypothesis", hypothesis_id=HYPOTHESIS, reviewer=USER),
    _step("dismiss_hypothesis", hypothesis_id=HYPOTHESIS, reviewer=USER, reason=WORDS),
    _step(
        "record_profile",
        cites=True,
        user=USER,
        competence=COMPETENCE,
        level=st.integers(1, 5),
        statement=WORDS,
        session_id=SESSION,
    ),
    _step("erase_profile", user=USER, competence=COMPETENCE, reason=WORDS),
    _step("publish_template", name=TEMPLATE, language=st.sampled_from(["en", "de"]), body=WORDS),
    _step("activate_template", name=TEMPLATE, number=st.integers(1, 3)),
)
# Without sessions, and with each of them closed at once, a history would be a list of refusals.
BEGINNING = [
    Step("open_session", {"tenant": tenant, "session_id": id_, "user": "ada", "project": "moon", "agent": "planner"})
    for tenant in ("acme", "a/c")
    for id_ in ("1", "a/b")
]


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(STEPS, min_size=20, max_size=60),
    batch_size=st.integers(1, 50),
    chance=st.randoms(use_true_random=False),
)
def test_g28_g29_live_projection_and_replay_and_fold_are_the_same_graph(
    database_url: str,
    template_database: str,
    graph: GraphEndpoint,
    steps: list[Step],
    batch_size: int,
    chance: random.Random,
) -> None:
    servers.wipe(graph)
    with (
        servers.clone_of(database_url, template_database) as database,
        writing(database) as app,
        projecting(database, graph, batch_size=batch_size) as parts,
    ):
        _carry_out(app, [*BEGINNING, *steps])
        _shuffle_and_repeat(database, chance)
        for _ in range(chance.randrange(3)):
            parts.projector.run_once()
            _deliver_again(database, chance)
        verified(parts)
        _is_the_fold(parts, app.log)
        _deliver_again(database, chance)
        verified(parts)
        with parts.projector.exclusively(WAIT):
            parts.replay()
        verified(parts)
        _is_the_fold(parts, app.log)
        assert untouched(database)


def _carry_out(app: Retold, steps: Sequence[Step]) -> None:
    for step in steps:
        with suppress(RetoldError):
            step(app, [each.id for each in app.log.read()])


def _shuffle_and_repeat(database: str, chance: random.Random) -> None:
    """Deliver the rows in another order: any among streams, the old one within each, and some again later."""
    lanes: dict[tuple[str, str], list[int]] = {}
    for tenant, stream, position in rows(
        database,
        "SELECT tenant, aggregate_id, event_position FROM outbox "
        "WHERE aggregate_type = 'graph_projection' ORDER BY event_position",
    ):
        lanes.setdefault((tenant, stream), []).append(position)
    turns = [lane for lane, positions in lanes.items() for _ in positions]
    chance.shuffle(turns)
    ahead = {lane: iter(positions) for lane, positions in lanes.items()}
    order = [(lane, next(ahead[lane])) for lane in turns]
    for again in chance.sample(range(len(order)), len(order) // 3):
        order.insert(chance.randint(again + 1, len(order)), order[again])
    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM outbox WHERE aggregate_type = 'graph_projection'")
        cursor.executemany(
            "INSERT INTO outbox (aggregate_type, tenant, aggregate_id, event_position) "
            "VALUES ('graph_projection', %s, %s, %s)",
            [(tenant, stream, position) for (tenant, stream), position in order],
        )


def _deliver_again(database: str, chance: random.Random) -> None:
    """Some of the rows that were projected are pending once more, as after a kill before the marking."""
    done = [row for (row,) in rows(database, "SELECT id FROM outbox WHERE processed_at IS NOT NULL ORDER BY id")]
    again = chance.sample(done, len(done) // 2)
    rows(database, "UPDATE outbox SET processed_at = NULL WHERE id = ANY(%s)", again)


def _is_the_fold(parts: Parts, log: EventLog) -> None:
    """The fold of the whole log as the domain reads it; `verify` reads it otherwise."""
    told = Graph()
    for event in log.read():
        told.apply(projections.changes(event) or (), position=event.position, version=event.version)
    nodes = [node for label in LABELS for node in parts.verify.reader.nodes(label)]
    edges = [edge for type_ in EDGE_TYPES for edge in parts.verify.reader.edges(type_)]
    assert compare(told, nodes, edges) == []
