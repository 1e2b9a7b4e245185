"""The rules by which changes become a graph, in memory: the writer's batch, `verify` and the tests all fold alike.

A change applies only if the version of its event is newer than what it would change. So the same change twice, late
changes, and streams in any order among each other lead to the same graph. Within a stream changes come in order.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from projector.changes import Change, Edge, Gone, Node, Ref, Value
from projector.schema import EdgeType

NEVER = -1
"""The version of a stub: older than any event."""

NodeKey = tuple[str, str]
"""Label and key."""

EdgeKey = tuple[EdgeType, str, str]
"""Type, key of the source, key of the target."""


@dataclass(slots=True)
class NodeState:
    """A node: what its stream has told of it so far.

    `gone_version` is the version of the last event that removed it: while it equals `version` the node is a tombstone.
    `replaced` says that this fold has seen it removed, so that nothing from before may be kept.
    """

    ref: Ref
    properties: dict[str, Value | None] = field(default_factory=dict)
    position: int = NEVER
    version: int = NEVER
    gone_version: int = NEVER
    replaced: bool = False

    @property
    def is_stub(self) -> bool:
        return self.version == NEVER

    def stored(self) -> dict[str, Value | None]:
        """Every property that the node has in the graph; one that is None is not there.

        A stub has its key and its identity alone, and only a node that was removed once says when.
        """
        stored: dict[str, Value | None] = {"key": self.ref.key, **self.ref.identity}
        if not self.is_stub:
            stored |= self.properties | {"position": self.position, "version": self.version}
        if self.gone_version != NEVER:
            stored["gone_version"] = self.gone_version
        return stored


@dataclass(slots=True)
class EdgeState:
    """An edge, and the event that told of it last."""

    type: EdgeType
    source: Ref
    target: Ref
    position: int
    version: int

    @property
    def owner(self) -> Ref:
        return self.source if self.type.owner == "source" else self.target


class Graph:
    """A graph in memory, told from changes."""

    def __init__(self) -> None:
        self.nodes: dict[NodeKey, NodeState] = {}
        self.edges: dict[EdgeKey, EdgeState] = {}
        self._owned: defaultdict[NodeKey, set[EdgeKey]] = defaultdict(set)

    def apply(self, changes: Iterable[Change], *, position: int, version: int) -> None:
        """Fold in what the event at `position`, with this version in its stream, changes."""
        for change in changes:
            match change:
                case Node():
                    self._set(self._node(change.ref), change.properties, position, version)
                case Edge():
                    self._connect(EdgeState(change.type, change.source, change.target, position, version))
                case Gone():
                    self._remove(self._node(change.ref), position, version)
                case _:
                    assert_never(change)

    def _node(self, ref: Ref) -> NodeState:
        key = (ref.label, ref.key)
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = NodeState(ref)
        return node

    @staticmethod
    def _set(node: NodeState, properties: Mapping[str, Value | None], position: int, version: int) -> None:
        if version > node.version:
            node.properties.update(properties)
            node.position, node.version = position, version

    def _remove(self, node: NodeState, position: int, version: int) -> None:
        if version <= node.version:
            return
        node.properties, node.replaced = {}, True
        node.position, node.version, node.gone_version = position, version, version
        for key in list(self._owned.get((node.ref.label, node.ref.key), ())):
            self._drop(key)

    def _connect(self, edge: EdgeState) -> None:
        source, target = self._node(edge.source), self._node(edge.target)
        owner = source if edge.type.owner == "source" else target
        if edge.version <= owner.gone_version:
            return
        if edge.type.sole and not self._supersedes(edge):
            return
        key = (edge.type, edge.source.key, edge.target.key)
        known = self.edges.get(key)
        if known is None or edge.version > known.version:
            self.edges[key] = edge
            self._owned[(owner.ref.label, owner.ref.key)].add(key)

    def _supersedes(self, edge: EdgeState) -> bool:
        owned = self._owned.get((edge.owner.label, edge.owner.key), set())
        rivals = [key for key in owned if key[0] == edge.type and key[1] == edge.source.key]
        if any(self.edges[key].version > edge.version for key in rivals):
            return False
        for key in rivals:
            self._drop(key)
        return True

    def _drop(self, key: EdgeKey) -> None:
        owner = self.edges.pop(key).owner
        self._owned[(owner.label, owner.key)].discard(key)
