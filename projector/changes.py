"""What a projection says about the graph: a node has these properties, there is this edge, a node is gone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.domain.events import Evidence
from projector.schema import EdgeType

Value = str | int | float | bool | datetime | list[str]
"""What both graph servers keep as a property. Times are UTC."""


@dataclass(frozen=True, slots=True)
class Ref:
    """Which node: a label and a key that is unique under it; `identity` are the properties that even a stub has."""

    label: str
    key: str
    identity: Mapping[str, Value] = field(compare=False)


def ref(label: str, tenant: str, **identity: str | int) -> Ref:
    """The node of `tenant` that `identity` tells apart, e.g. `ref("Handoff", "acme", session="42", offer=7)`."""
    key = "/".join(map(_escaped, (tenant, *identity.values())))
    return Ref(label, key, {"tenant": tenant, **identity})


def cited(tenant: str, evidence: Evidence) -> Ref:
    """The node of an event that supports a claim: told apart by its id and version."""
    return ref(
        "Evidence",
        tenant,
        event=str(evidence.event_id),
        session=evidence.session,
        event_version=evidence.version,
    )


def _escaped(part: str | int) -> str:
    # A slash inside an id must not look like the border between two parts of a key.
    return str(part).replace("%", "%25").replace("/", "%2F")


@dataclass(frozen=True, slots=True)
class Node:
    """The node has these properties from now on; None removes one, and those not named stay as they are."""

    ref: Ref
    properties: Mapping[str, Value | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edge:
    """There is an edge of this type; ends that do not exist yet become stubs."""

    type: EdgeType
    source: Ref
    target: Ref


@dataclass(frozen=True, slots=True)
class Gone:
    """The node loses its properties and the edges it owns; a tombstone stays, so that nothing late revives it."""

    ref: Ref


Change = Node | Edge | Gone
