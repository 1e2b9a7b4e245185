"""Reads the live projection back, page by page, in the words of `fold.py`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from neo4j.time import DateTime

from app.infrastructure.graph.client import GraphClient, Statement
from projector.compare import LiveEdge, LiveNode
from projector.schema import LABELS, EdgeType

PAGE: Final = 1_000


class GraphReader:
    """The live graph, in flat memory however large it is. Every method raises `GraphUnavailable`."""

    def __init__(self, client: GraphClient) -> None:
        self._client = client

    def nodes(self, label: str, *, size: int = PAGE) -> Iterator[LiveNode]:
        """Every node with `label`, by key."""
        for page in self._client.pages(_NODES.format(label=label), size=size):
            for row in page:
                yield LiveNode(label, row["cursor"], _normal(row["properties"]))

    def edges(self, type: EdgeType, *, size: int = PAGE) -> Iterator[LiveEdge]:
        """Every edge of `type`, by the key of its source; a page is `size` sources with all their edges."""
        query = _EDGES.format(source=type.source, name=type.name, target=type.target)
        for page in self._client.pages(query, size=size):
            for row in page:
                if row["target"] is not None:
                    yield LiveEdge(type, row["cursor"], row["target"], _normal(row["properties"]))

    def counts(self) -> dict[str, int]:
        """How many nodes each label has."""
        return {
            label: self._client.read(Statement(f"MATCH (n:{label}) RETURN count(n) AS nodes"))[0]["nodes"]
            for label in LABELS
        }


_NODES = """
    MATCH (n:{label}) WHERE n.key > $after
    WITH n ORDER BY n.key LIMIT $size
    RETURN n.key AS cursor, properties(n) AS properties
    ORDER BY cursor
"""

_EDGES = """
    MATCH (a:{source}) WHERE a.key > $after
    WITH a ORDER BY a.key LIMIT $size
    OPTIONAL MATCH (a)-[r:{name}]->(b:{target})
    RETURN a.key AS cursor, b.key AS target, properties(r) AS properties
    ORDER BY cursor, target
"""


def _normal(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: _as_utc(value) if isinstance(value, DateTime) else value for name, value in properties.items()}


def _as_utc(value: DateTime) -> datetime:
    # Both servers keep microseconds; the embedded one gives times back without their zone, which was UTC.
    native: datetime = value.to_native()
    return native.replace(tzinfo=UTC) if native.tzinfo is None else native.astimezone(UTC)
