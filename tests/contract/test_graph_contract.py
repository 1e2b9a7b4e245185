"""One suite for the graph in memory and on a server: what events lead to does not depend on where it is kept."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.events import Recorded
from app.infrastructure.graph.client import GraphClient, Statement
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.graph.errors import GraphRefused
from projector import projections
from projector.changes import Change, Node, Ref, Value, ref
from projector.compare import LiveEdge, LiveNode, compare
from projector.fold import Graph
from projector.reader import GraphReader
from projector.schema import EDGE_TYPES, LABELS
from projector.writer import GraphWriter
from tests.histories import History, batches, evidence, folded, histories, shuffled_across_streams

pytestmark = pytest.mark.graph

PAGE = 3
bounded = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

Told = tuple[Sequence[Change], int, int]
"""The changes of an event, its position, its version."""


class KeptGraph(Protocol):
    """What both have: take a batch, say what is there, forget it."""

    def write(self, batch: Iterable[Told]) -> None: ...
    def nodes(self) -> Iterator[LiveNode]: ...
    def edges(self) -> Iterator[LiveEdge]: ...
    def wipe(self) -> None: ...


class MemoryGraph:
    """Folds change by change into one graph."""

    def __init__(self) -> None:
        self._graph = Graph()

    def write(self, batch: Iterable[Told]) -> None:
        _fold(self._graph, batch)

    def nodes(self) -> Iterator[LiveNode]:
        for (label, key), node in self._graph.nodes.items():
            yield LiveNode(label, key, {name: value for name, value in node.stored().items() if value is not None})

    def edges(self) -> Iterator[LiveEdge]:
        for (type_, source, target), edge in self._graph.edges.items():
            yield LiveEdge(type_, source, target, {"position": edge.position, "version": edge.version})

    def wipe(self) -> None:
        self._graph = Graph()


class ServerGraph:
    """Folds a batch, then writes what it comes to, as the projector does."""

    def __init__(self, client: GraphClient) -> None:
        self._writer = GraphWriter(client)
        self._reader = GraphReader(client)
        self._writer.prepare()

    def write(self, batch: Iterable[Told]) -> None:
        self._writer.write(_fold(Graph(), batch))

    def nodes(self) -> Iterator[LiveNode]:
        for label in LABELS:
            yield from self._reader.nodes(label, size=PAGE)

    def edges(self) -> Iterator[LiveEdge]:
        for each in EDGE_TYPES:
            yield from self._reader.edges(each, size=PAGE)

    def wipe(self) -> None:
        self._writer.wipe(lambda _: None)


@pytest.fixture(scope="module")
def client(graph: GraphEndpoint) -> Iterator[GraphClient]:
    with GraphClient(graph, timeout=timedelta(seconds=30), connect_timeout=timedelta(seconds=5)) as client:
        yield client


@pytest.fixture(params=["memory", "server"])
def kept(request: pytest.FixtureRequest) -> KeptGraph:
    if request.param == "memory":
        return MemoryGraph()
    server = ServerGraph(request.getfixturevalue("client"))
    server.wipe()
    return server


@bounded
@given(data=st.data(), events=histories())
def test_any_batches_with_repeats_and_shuffled_streams_lead_to_the_fold_of_the_log_g28(
    kept: KeptGraph, data: st.DataObject, events: Sequence[Recorded]
) -> None:
    kept.wipe()
    for batch in data.draw(batches(data.draw(shuffled_across_streams(events)))):
        kept.write(map(_told, batch))
    assert compare(folded(events), kept.nodes(), kept.edges()) == []


@bounded
@given(data=st.data(), events=histories())
def test_a_graph_that_is_ahead_stays_as_it_is_g34(
    kept: KeptGraph, data: st.DataObject, events: Sequence[Recorded]
) -> None:
    kept.wipe()
    kept.write(map(_told, events))
    for batch in data.draw(batches(events, repeats=False)):
        kept.write(map(_told, batch))
        assert compare(folded(events), kept.nodes(), kept.edges()) == []


def test_an_erased_profile_stays_erased_when_old_rows_come_again_x18(kept: KeptGraph) -> None:
    history = History()
    old = history.record(statement="a secret", evidence=[evidence()])
    history.erase()
    _project(kept, history.events[:1])
    _project(kept, history.events[1:])
    _project(kept, [old])
    assert compare(folded(history.events), kept.nodes(), kept.edges()) == []
    assert "a secret" not in repr(list(kept.nodes()))
    assert not [each for each in kept.edges() if each.type.name == "SUPPORTED_BY"]


def test_a_profile_recorded_again_after_its_erasure_has_nothing_from_before(kept: KeptGraph) -> None:
    history = History()
    history.record(statement="a secret", evidence=[evidence(1)])
    _project(kept, history.events)
    history.erase()
    history.record(statement=None, evidence=[evidence(2)])
    _project(kept, history.events[1:])
    assert compare(folded(history.events), kept.nodes(), kept.edges()) == []
    assert len([each for each in kept.edges() if each.type.name == "SUPPORTED_BY"]) == 1


def test_active_moves_and_never_goes_back(kept: KeptGraph) -> None:
    history = History()
    history.publish(number=1)
    history.publish(number=2)
    first = history.activate(number=1)
    _project(kept, history.events)
    second = history.activate(number=2)
    for rows in ([second], [first], [first, second], [first]):
        _project(kept, rows)
        assert [each.target for each in kept.edges() if each.type.name == "ACTIVE"] == ["acme/kickoff/2"]
    _project(kept, [history.activate(number=1)])
    assert [each.target for each in kept.edges() if each.type.name == "ACTIVE"] == ["acme/kickoff/1"]
    assert compare(folded(history.events), kept.nodes(), kept.edges()) == []


def test_a_property_set_to_none_is_removed(kept: KeptGraph) -> None:
    node = ref("Session", "acme", id="42")
    kept.write([([Node(node, {"status": "open", "cause": "crashed"})], 1, 1)])
    kept.write([([Node(node, {"cause": None})], 2, 2)])
    assert _properties(kept, node) == {"status": "open"}


@pytest.mark.parametrize(
    "value",
    [
        "",
        " outer spaces \r\n",
        "e\u0301 is not \u00e9",
        "👩‍👩‍👧 שלום \U0001f1e9\U0001f1ea",
        "x" * 2**20,
        "'; MATCH (n) DETACH DELETE n //",
        0,
        -1,
        2**63 - 1,
        -(2**63),
        True,
        False,
        0.1,
        1.0,
        1e300,
        [],
        ["a", "", "ö"],
        datetime(2026, 1, 2, 3, 4, 5, 678912, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_value_comes_back_as_it_was(kept: KeptGraph, value: Value) -> None:
    node = ref("Session", "acme", id="42")
    kept.write([([Node(node, {"value": value})], 1, 1)])
    found = _properties(kept, node)["value"]
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "id",
    [
        "a/b",
        "a%2Fb",
        "%",
        "it's",
        'say "hi"',
        "`back`",
        "a\\b",
        "$rows",
        "{key: 1}",
        "') DETACH DELETE n //",
        "ключ",
        "x" * 200,
    ],
)
def test_an_id_may_hold_anything_that_prints(kept: KeptGraph, id: str) -> None:
    history = History(tenant=id)
    history.hand_off(id, frm=id, to=f"{id}2", user=id, project=id)
    history.close(id, user=id, project=id)
    history.publish(id)
    history.activate(id)
    _project(kept, history.events)
    _project(kept, history.events)
    assert compare(folded(history.events), kept.nodes(), kept.edges()) == []


def test_two_tenants_with_the_same_ids_stay_apart_x26(kept: KeptGraph) -> None:
    told = []
    for tenant in ("acme", "bcme"):
        history = History(tenant)
        history.hand_off()
        history.record()
        told.append(history.events)
        _project(kept, history.events)
    assert {each.properties["tenant"] for each in kept.nodes()} == {"acme", "bcme"}
    assert all(each.source.split("/")[0] == each.target.split("/")[0] for each in kept.edges())
    history.erase()
    _project(kept, history.events)
    profiles = {each.key: each.properties for each in kept.nodes() if each.label == "Profile"}
    assert "level" in profiles["acme/ada/backend"]
    assert "level" not in profiles["bcme/ada/backend"]


def test_a_wiped_and_replayed_graph_is_equal_g29(kept: KeptGraph) -> None:
    history = _everything()
    _project(kept, history.events)
    kept.wipe()
    assert not list(kept.nodes())
    assert not list(kept.edges())
    _project(kept, history.events)
    assert compare(folded(history.events), kept.nodes(), kept.edges()) == []


class TestOnAServer:
    """What only a server can do."""

    @pytest.fixture
    def server(self, client: GraphClient) -> ServerGraph:
        server = ServerGraph(client)
        server.wipe()
        return server

    def test_preparing_twice_and_by_two_at_once_leaves_one_constraint_a_label(
        self, client: GraphClient, graph: GraphEndpoint
    ) -> None:
        for row in _unique(client):
            client.run(Statement(f"DROP CONSTRAINT {row['name']} IF EXISTS"))
        errors: list[Exception] = []

        def prepare() -> None:
            try:
                with GraphClient(graph, timeout=timedelta(seconds=30), connect_timeout=timedelta(seconds=5)) as other:
                    GraphWriter(other).prepare()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=prepare) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        GraphWriter(client).prepare()
        assert errors == []
        assert sorted(row["labelsOrTypes"][0] for row in _unique(client)) == sorted(LABELS)

    def test_a_batch_of_which_one_row_is_refused_leaves_nothing(self, server: ServerGraph) -> None:
        good, bad = ref("Session", "acme", id="good"), ref("Session", "acme", id="bad")
        for value in ({"map": 1}, object(), 2**63, "\ud800"):
            with pytest.raises(GraphRefused):
                server.write([([Node(good), Node(bad, {"value": value})], 1, 1)])  # type: ignore[dict-item]
        assert list(server.nodes()) == []

    def test_a_wipe_leaves_what_is_not_ours_and_says_how_far_it_is(
        self, server: ServerGraph, client: GraphClient
    ) -> None:
        client.write([Statement("MATCH (n:Foreign) DETACH DELETE n"), Statement("CREATE (:Foreign {name: 'theirs'})")])
        _project(server, _everything().events)
        client.write([Statement("MATCH (f:Foreign), (s:Session) CREATE (f)-[:LIKES]->(s)")])
        there = len(list(server.nodes()))
        heard: list[int] = []
        assert GraphWriter(client).wipe(heard.append) == there
        assert heard == sorted(heard)
        assert heard[-1] == there
        assert client.read(Statement("MATCH (n:Foreign) RETURN n.name AS name")) == [{"name": "theirs"}]
        assert GraphWriter(client).wipe(heard.append) == 0

    def test_counts_are_those_of_the_labels(self, server: ServerGraph, client: GraphClient) -> None:
        _project(server, _everything().events)
        counts = GraphReader(client).counts()
        assert counts.keys() == set(LABELS)
        assert counts["Agent"] == 2
        assert sum(counts.values()) == len(list(server.nodes()))

    def test_times_of_other_zones_come_back_as_utc(self, server: ServerGraph) -> None:
        node = ref("Session", "acme", id="42")
        noon = datetime(2026, 1, 2, 12, 0, tzinfo=timezone(timedelta(hours=5, minutes=30)))
        server.write([([Node(node, {"at": noon.astimezone(UTC)})], 1, 1)])
        assert _properties(server, node)["at"] == noon

    def test_an_edge_to_a_node_with_many_edges_costs_no_more_than_the_first(self, server: ServerGraph) -> None:
        history = History()
        for each in range(4_000):
            history.hand_off(f"s{each}")
        took = []
        for start in range(0, len(history.events), 500):
            began = datetime.now(UTC)
            _project(server, history.events[start : start + 500])
            took.append(datetime.now(UTC) - began)
        # The first batch warms the server up; a linear cost would show as eight times the second.
        assert min(took[-3:]) < 4 * min(took[1:4])


def _unique(client: GraphClient) -> list[dict[str, Any]]:
    return [row for row in client.run(Statement("SHOW CONSTRAINTS")) if "UNIQUENESS" in row["type"]]


def _fold(graph: Graph, batch: Iterable[Told]) -> Graph:
    for changes, position, version in batch:
        graph.apply(changes, position=position, version=version)
    return graph


def _told(event: Recorded) -> Told:
    return projections.changes(event) or (), event.position, event.version


def _project(kept: KeptGraph, events: Iterable[Recorded]) -> None:
    kept.write(map(_told, events))


def _properties(kept: KeptGraph, ref_: Ref) -> dict[str, object]:
    (node,) = (each for each in kept.nodes() if (each.label, each.key) == (ref_.label, ref_.key))
    known = {"key", "position", "version", *ref_.identity}
    return {name: value for name, value in node.properties.items() if name not in known}


def _everything() -> History:
    history = History()
    history.open()
    history.hand_off()
    history.propose(evidence=[evidence()])
    history.accept()
    history.record(evidence=[evidence()])
    history.close()
    history.record("bo", "design")
    history.erase("bo", "design")
    history.publish()
    history.activate()
    return history
