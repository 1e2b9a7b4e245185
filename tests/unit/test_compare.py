"""What `verify` calls a difference."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from projector import schema
from projector.compare import Difference, LiveEdge, LiveNode, compare
from projector.fold import Graph
from tests.histories import History, evidence, folded


@pytest.fixture
def graph() -> Graph:
    history = History()
    history.hand_off()
    history.crash()
    history.record(evidence=[evidence()])
    history.erase()
    return folded(history.events)


def live_nodes(graph: Graph) -> Iterator[LiveNode]:
    for (label, key), node in graph.nodes.items():
        yield LiveNode(label, key, {name: value for name, value in node.stored().items() if value is not None})


def live_edges(graph: Graph) -> Iterator[LiveEdge]:
    for (type_, source, target), edge in graph.edges.items():
        yield LiveEdge(type_, source, target, {"position": edge.position, "version": edge.version})


def test_the_graph_that_the_log_tells_has_no_difference(graph: Graph) -> None:
    assert compare(graph, live_nodes(graph), live_edges(graph)) == []


def test_an_empty_graph_lacks_everything(graph: Graph) -> None:
    differences = compare(graph, (), ())
    assert {each.kind for each in differences} == {"missing"}
    assert len(differences) == len(graph.nodes) + len(graph.edges)


def test_what_the_log_does_not_tell_is_extra(graph: Graph) -> None:
    stranger = LiveNode("Agent", "acme/mallory", {"key": "acme/mallory"})
    shortcut = LiveEdge(schema.OF_USER, "acme/42", "acme/mallory", {})
    assert compare(graph, [*live_nodes(graph), stranger], [*live_edges(graph), shortcut]) == [
        Difference("extra", "node", "Agent", "acme/mallory"),
        Difference("extra", "edge", "OF_USER", "acme/42", "acme/mallory"),
    ]


def test_a_second_edge_between_the_same_nodes_is_extra(graph: Graph) -> None:
    edges = list(live_edges(graph))
    doubled = next(each for each in edges if each.type is schema.FROM)
    assert compare(graph, live_nodes(graph), [*edges, doubled]) == [
        Difference("extra", "edge", "FROM", doubled.source, doubled.target)
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("cause", "failed"), ("cause", None), ("status", None), ("version", 1), ("version", 2.0), ("mood", "bad")],
)
def test_a_property_that_differs_is_named_with_both_values(graph: Graph, name: str, value: object) -> None:
    told = graph.nodes["Session", "acme/42"].stored().get(name)

    def changed(node: LiveNode) -> LiveNode:
        if node.label != "Session":
            return node
        properties = {**node.properties, name: value}
        return replace(node, properties={key: each for key, each in properties.items() if each is not None})

    assert compare(graph, map(changed, live_nodes(graph)), live_edges(graph)) == [
        Difference("different", "node", "Session", "acme/42", property=name, expected=told, actual=value)
    ]


def test_an_edge_told_by_another_event_is_different(graph: Graph) -> None:
    edges = [
        replace(each, properties={**each.properties, "version": 7}) if each.type is schema.TO else each
        for each in live_edges(graph)
    ]
    assert compare(graph, live_nodes(graph), edges) == [
        Difference("different", "edge", "TO", "acme/42/1", "acme/clerk", "version", 1, 7)
    ]


def test_the_order_of_the_live_side_does_not_matter(graph: Graph) -> None:
    nodes = [*live_nodes(graph)][2:]
    edges = [*live_edges(graph)][1:]
    first = compare(graph, nodes, edges)
    Random(1).shuffle(nodes)
    Random(1).shuffle(edges)
    assert compare(graph, nodes, edges) == first
