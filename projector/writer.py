"""Writes a folded batch to the graph: one transaction, one statement for each label and edge type that occurs in it.

The statements say in Cypher what `fold.py` says in Python, against what the graph holds by now: so any batches of the
same changes, repeated or late, leave the same graph. Labels and types come from `schema.py`, values are parameters.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, TypeVar

from app.infrastructure.graph.client import GraphClient, Statement
from projector.fold import EdgeState, Graph, NodeState
from projector.schema import EDGE_TYPES, LABELS, EdgeType

K = TypeVar("K")
S = TypeVar("S")

Rows = list[dict[str, Any]]

WIPED_AT_ONCE: Final = 5_000
"""Nodes or edges in one transaction of a wipe: seconds at most, and little memory, on both servers."""


class GraphWriter:
    """The only one that changes the projection in the graph."""

    def __init__(self, client: GraphClient) -> None:
        self._client = client

    def ping(self) -> None:
        """Nothing, if the graph answers. Raises `GraphUnavailable`."""
        self._client.ping()

    def prepare(self) -> None:
        """See to it that a key is unique under its label; does nothing where that is so already."""
        for label in LABELS:
            self._client.run(Statement(_constraint(label)))

    def write(self, batch: Graph) -> None:
        """Bring the graph to where the changes of `batch` lead, all of them or, where this raises, none.

        Raises `GraphUnavailable` and `GraphRefused`.
        """
        statements = list(_statements(batch))
        if statements:
            self._client.write(statements)

    def wipe(self, on_progress: Callable[[int], None]) -> int:
        """Delete the whole projection, and nothing else that lives in the graph; `on_progress` hears how many nodes
        are gone so far. Goes on where one that was interrupted had stopped. Returns how many nodes it deleted."""
        for edge in EDGE_TYPES:
            while self._delete(_wipe_edges(edge)):
                pass
        gone = 0
        for label in LABELS:
            while deleted := self._delete(_wipe_nodes(label)):
                gone += deleted
                on_progress(gone)
        return gone

    def _delete(self, query: str) -> int:
        deleted: int = self._client.write([Statement(query, {"size": WIPED_AT_ONCE})])[0]["deleted"]
        return deleted


def _statements(batch: Graph) -> Iterator[Statement]:
    """Nodes first, for edges look for their ends; removed edges before new ones, for those may be the same again."""
    nodes = _grouped(batch.nodes.values(), lambda node: node.ref.label)
    edges = _grouped(batch.edges.values(), lambda edge: edge.type)
    for label, states in nodes.items():
        yield from _unwind(_stubs(label), [_stub_row(each) for each in states if each.is_stub])
        known = [each for each in states if not each.is_stub]
        yield from _unwind(_nodes(label), [_node_row(each) for each in known if not each.replaced])
        yield from _unwind(_replaced(label), [_node_row(each) for each in known if each.replaced])
    for label, states in nodes.items():
        rows = [{"key": each.ref.key, "gone_version": each.gone_version} for each in states if each.replaced]
        for edge in EDGE_TYPES:
            if edge.owner_label == label:
                yield from _unwind(_disowned(edge), rows)
    for edge, told in edges.items():
        rows = [_edge_row(each) for each in told]
        if edge.sole:
            yield from _unwind(_superseded(edge), rows)
        yield from _unwind(_edges(edge), rows)


def _grouped(states: Iterable[S], by: Callable[[S], K]) -> dict[K, list[S]]:
    groups: defaultdict[K, list[S]] = defaultdict(list)
    for state in states:
        groups[by(state)].append(state)
    return groups


def _unwind(query: str, rows: Rows) -> Iterator[Statement]:
    if rows:
        yield Statement(query, {"rows": rows})


def _stub_row(node: NodeState) -> dict[str, Any]:
    return {"key": node.ref.key, "identity": node.ref.identity}


def _node_row(node: NodeState) -> dict[str, Any]:
    return {"key": node.ref.key, "version": node.version, "properties": node.stored()}


def _edge_row(edge: EdgeState) -> dict[str, Any]:
    return {
        "source": edge.source.key,
        "target": edge.target.key,
        "position": edge.position,
        "version": edge.version,
    }


def _constraint(label: str) -> str:
    return f"CREATE CONSTRAINT retold_{label.lower()}_key IF NOT EXISTS FOR (n:{label}) REQUIRE n.key IS UNIQUE"


@cache
def _stubs(label: str) -> str:
    return f"""
        UNWIND $rows AS row
        MERGE (n:{label} {{key: row.key}})
        ON CREATE SET n += row.identity
    """


@cache
def _nodes(label: str) -> str:
    # In a map that is added with +=, null removes a property.
    return f"""
        UNWIND $rows AS row
        MERGE (n:{label} {{key: row.key}})
        WITH n, row WHERE coalesce(n.version, -1) < row.version
        SET n += row.properties
    """


@cache
def _replaced(label: str) -> str:
    """The batch has seen the node removed: nothing that was there before may stay."""
    return f"""
        UNWIND $rows AS row
        MERGE (n:{label} {{key: row.key}})
        WITH n, row WHERE coalesce(n.version, -1) < row.version
        SET n = row.properties
    """


@cache
def _disowned(edge: EdgeType) -> str:
    """Also right where the graph is ahead of the batch: what was told after the removal is newer than it."""
    ends = (
        f"(n:{edge.source} {{key: row.key}})-[r:{edge.name}]->(:{edge.target})"
        if edge.owner == "source"
        else f"(n:{edge.target} {{key: row.key}})<-[r:{edge.name}]-(:{edge.source})"
    )
    return f"""
        UNWIND $rows AS row
        MATCH {ends} WHERE r.version <= row.gone_version
        DELETE r
    """


@cache
def _superseded(edge: EdgeType) -> str:
    return f"""
        UNWIND $rows AS row
        MATCH (:{edge.source} {{key: row.source}})-[r:{edge.name}]->(other:{edge.target})
        WHERE r.version <= row.version AND other.key <> row.target
        DELETE r
    """


@cache
def _edges(edge: EdgeType) -> str:
    owner = "a" if edge.owner == "source" else "b"
    # Older rivals are deleted by now: one that is left is newer, and stays the only one.
    rivals = (
        f"""
        OPTIONAL MATCH (a)-[rival:{edge.name}]->(:{edge.target})
        WITH a, b, row, coalesce(max(rival.version), -1) AS newest WHERE newest <= row.version
        """
        if edge.sole
        else ""
    )
    return f"""
        UNWIND $rows AS row
        MATCH (a:{edge.source} {{key: row.source}})
        MATCH (b:{edge.target} {{key: row.target}})
        WITH a, b, row WHERE coalesce({owner}.gone_version, -1) < row.version
        {rivals}
        MERGE (a)-[r:{edge.name}]->(b)
        WITH r, row WHERE coalesce(r.version, -1) < row.version
        SET r.version = row.version, r.position = row.position
    """


@cache
def _wipe_edges(edge: EdgeType) -> str:
    # From the end that has many edges: the embedded server finds an edge there faster the newer it is.
    ends = (
        f"(:{edge.target})<-[r:{edge.name}]-(:{edge.source})"
        if edge.owner == "source"
        else f"(:{edge.source})-[r:{edge.name}]->(:{edge.target})"
    )
    return f"""
        MATCH {ends}
        WITH r LIMIT $size
        DELETE r
        RETURN count(r) AS deleted
    """


@cache
def _wipe_nodes(label: str) -> str:
    # DETACH, for somebody else's edges may lead to a node of ours.
    return f"""
        MATCH (n:{label})
        WITH n LIMIT $size
        DETACH DELETE n
        RETURN count(n) AS deleted
    """
