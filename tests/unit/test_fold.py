"""The rules by which changes become a graph."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.domain.events import Recorded
from projector import schema
from projector.changes import Edge, Gone, Node, ref
from projector.fold import Graph
from tests.histories import History, evidence, folded, histories, project, shuffled_across_streams

SESSION = ref("Session", "acme", id="42")
TEMPLATE = ref("Template", "acme", id="kickoff")
FIRST = ref("TemplateVersion", "acme", template="kickoff", number=1)
SECOND = ref("TemplateVersion", "acme", template="kickoff", number=2)


def content(graph: Graph) -> tuple[dict[object, object], dict[object, object]]:
    nodes = {
        key: {name: value for name, value in each.stored().items() if value is not None}
        for key, each in graph.nodes.items()
    }
    return dict(nodes), {key: (each.position, each.version) for key, each in graph.edges.items()}


@given(histories())
def test_projected_twice_it_is_the_same_graph_g28(events: Sequence[Recorded]) -> None:
    graph = folded(events)
    once = content(graph)
    assert content(project(graph, events)) == once


@given(st.data(), histories())
def test_streams_in_any_order_among_each_other_give_the_same_graph_g28(
    data: st.DataObject, events: Sequence[Recorded]
) -> None:
    assert content(folded(data.draw(shuffled_across_streams(events)))) == content(folded(events))


def test_an_older_change_changes_nothing() -> None:
    graph = Graph()
    graph.apply([Node(SESSION, {"status": "closed"})], position=9, version=4)
    graph.apply([Node(SESSION, {"status": "open", "cause": "late"})], position=5, version=2)
    assert graph.nodes["Session", SESSION.key].stored() == {
        "key": "acme/42",
        "tenant": "acme",
        "id": "42",
        "status": "closed",
        "position": 9,
        "version": 4,
    }


def test_a_property_of_none_is_removed_and_one_not_named_stays() -> None:
    graph = Graph()
    graph.apply([Node(SESSION, {"status": "open", "cause": "crashed"})], position=1, version=1)
    graph.apply([Node(SESSION, {"cause": None})], position=2, version=2)
    assert graph.nodes["Session", SESSION.key].properties == {"status": "open", "cause": None}


def test_an_end_that_nobody_has_told_of_is_a_stub_with_its_identity() -> None:
    graph = Graph()
    graph.apply([Edge(schema.HAS_VERSION, TEMPLATE, FIRST)], position=1, version=1)
    stub = graph.nodes["TemplateVersion", FIRST.key]
    assert stub.is_stub
    assert stub.stored() == {"key": FIRST.key, "tenant": "acme", "template": "kickoff", "number": 1}


def test_of_a_sole_type_the_newest_edge_stays_and_never_goes_back() -> None:
    graph = Graph()
    graph.apply([Edge(schema.ACTIVE, TEMPLATE, FIRST)], position=1, version=2)
    graph.apply([Edge(schema.ACTIVE, TEMPLATE, SECOND)], position=2, version=4)
    graph.apply([Edge(schema.ACTIVE, TEMPLATE, FIRST)], position=1, version=2)
    assert [key[2] for key in graph.edges] == [SECOND.key]
    graph.apply([Edge(schema.ACTIVE, TEMPLATE, FIRST)], position=3, version=5)
    assert [key[2] for key in graph.edges] == [FIRST.key]


def test_a_tombstone_keeps_the_key_and_loses_words_and_edges_x18() -> None:
    history = History()
    history.record(evidence=[evidence()])
    gone = history.erase()
    graph = folded(history.events)
    assert graph.nodes["Profile", "acme/ada/backend"].stored() == {
        "key": "acme/ada/backend",
        "tenant": "acme",
        "user": "ada",
        "competence": "backend",
        "position": gone.position,
        "version": gone.version,
        "gone_version": gone.version,
    }
    assert not graph.edges


def test_a_late_event_does_not_revive_what_is_gone_x18() -> None:
    history = History()
    late = history.record(evidence=[evidence()])
    history.erase()
    graph = folded(history.events[1:])
    before = content(graph)
    after = content(project(graph, [late]))
    assert after[0]["Profile", "acme/ada/backend"] == before[0]["Profile", "acme/ada/backend"]
    assert not after[1]


def test_what_is_recorded_after_an_erasure_is_there_with_that_alone() -> None:
    history = History()
    history.record(evidence=[evidence(1)])
    gone = history.erase()
    history.record(level=1, evidence=[evidence(2)])
    graph = folded(history.events)
    profile = graph.nodes["Profile", "acme/ada/backend"]
    assert (profile.properties["level"], profile.gone_version) == (1, gone.version)
    assert {key[2] for key in graph.edges if key[0] is schema.PROFILE_SUPPORTED_BY} == {
        ref("Evidence", "acme", event=str(evidence(2).event_id), session="42", event_version=2).key
    }


def test_an_edge_goes_with_its_owner_and_not_with_its_other_end() -> None:
    graph = Graph()
    graph.apply([Edge(schema.HAS_VERSION, TEMPLATE, FIRST)], position=1, version=1)
    graph.apply([Gone(FIRST)], position=2, version=2)
    assert len(graph.edges) == 1
    graph.apply([Gone(TEMPLATE)], position=3, version=3)
    assert not graph.edges
