"""Compares the graph as it is with the graph that the log tells: what is missing, what is too much, what differs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from projector.fold import EdgeKey, Graph, NodeKey
from projector.schema import EdgeType

Kind = Literal["missing", "extra", "different"]
What = Literal["node", "edge"]


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node as the graph holds it; `properties` are all of them, `key` and `version` included."""

    label: str
    key: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiveEdge:
    """An edge as the graph holds it, between the keys of its ends."""

    type: EdgeType
    source: str
    target: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as the log tells it.

    `key` is a node's key; for an edge it is the key of its source, and `target` the other. `property` is there for
    `different` alone; a value of None says that it is absent.
    """

    kind: Kind
    what: What
    type: str
    key: str
    target: str | None = None
    property: str | None = None
    expected: Any = None
    actual: Any = None


def compare(expected: Graph, nodes: Iterable[LiveNode], edges: Iterable[LiveEdge]) -> list[Difference]:
    """Every difference, nodes before edges, each by type and key. The live side may come in any order, read once."""
    return sorted((*_nodes(expected, nodes), *_edges(expected, edges)), key=_order)


def _nodes(expected: Graph, live: Iterable[LiveNode]) -> Iterator[Difference]:
    seen: set[NodeKey] = set()
    for node in live:
        key = (node.label, node.key)
        if key in seen or key not in expected.nodes:
            yield Difference("extra", "node", node.label, node.key)
            continue
        seen.add(key)
        for name, told, found in _unlike(expected.nodes[key].stored(), node.properties):
            yield Difference("different", "node", node.label, node.key, None, name, told, found)
    for label, key_ in expected.nodes.keys() - seen:
        yield Difference("missing", "node", label, key_)


def _edges(expected: Graph, live: Iterable[LiveEdge]) -> Iterator[Difference]:
    seen: set[EdgeKey] = set()
    for edge in live:
        key = (edge.type, edge.source, edge.target)
        if key in seen or key not in expected.edges:
            yield Difference("extra", "edge", edge.type.name, edge.source, edge.target)
            continue
        seen.add(key)
        told = expected.edges[key]
        for name, value, found in _unlike({"position": told.position, "version": told.version}, edge.properties):
            yield Difference("different", "edge", edge.type.name, edge.source, edge.target, name, value, found)
    for type_, source, target in expected.edges.keys() - seen:
        yield Difference("missing", "edge", type_.name, source, target)


def _unlike(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in expected.keys() | actual.keys():
        told, found = expected.get(name), actual.get(name)
        # True and 1 and 1.0 are equal to Python, and not to somebody who queries the graph.
        if type(told) is not type(found) or told != found:
            yield name, told, found


def _order(difference: Difference) -> tuple[bool, str, str, str, str, str]:
    return (
        difference.what == "edge",
        difference.type,
        difference.key,
        difference.target or "",
        difference.property or "",
        difference.kind,
    )
