"""What there is to know about a graph server before one trusts it: version, constraints, permission."""

from dataclasses import dataclass
from typing import Final

from app.domain.errors import RuleBroken
from app.infrastructure.graph.client import GraphClient, Statement

VERSION: Final = Statement("CALL dbms.components() YIELD name, versions RETURN name, versions[0] AS version")
CONSTRAINTS: Final = Statement("SHOW CONSTRAINTS YIELD name")
# Written and removed in one transaction: nobody else sees it, and nothing of it stays.
WRITE: Final = Statement("CREATE (probe:WriteProbe) DELETE probe")


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """`constraints` are names; `refusal` is what the server says to a write, None where it takes it."""

    product: str
    version: str
    constraints: tuple[str, ...]
    refusal: str | None


def graph_facts(client: GraphClient) -> GraphFacts:
    """Raises `GraphUnavailable`."""
    components = client.read(VERSION)[0]
    constraints = client.run(CONSTRAINTS)
    return GraphFacts(
        product=components["name"],
        version=components["version"],
        constraints=tuple(sorted(str(each["name"]) for each in constraints)),
        refusal=_refusal(client),
    )


def _refusal(client: GraphClient) -> str | None:
    try:
        client.write([WRITE])
    except RuleBroken as error:
        return str(error)
    return None
