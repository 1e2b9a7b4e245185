"""The shape of the graph, declared once: labels, and edge types with the node that owns them."""

from dataclasses import dataclass
from typing import Final, Literal

LABELS: Final = (
    "Agent",
    "Competence",
    "Evidence",
    "Handoff",
    "Hypothesis",
    "Interaction",
    "Profile",
    "Project",
    "Session",
    "Template",
    "TemplateVersion",
    "User",
)
"""Every label; each has a uniqueness constraint on `key`. Statements are made from this tuple, never from data."""


@dataclass(frozen=True, slots=True, eq=False)
class EdgeType:
    """An edge type between two labels.

    The owner is the end whose stream tells of the edge: when the owner is gone, its edges go with it. Of a `sole` type
    a source has one edge, the newest. Two types are the same only if they are the same constant below.
    """

    name: str
    source: str
    target: str
    owner: Literal["source", "target"]
    sole: bool = False

    @property
    def owner_label(self) -> str:
        return self.source if self.owner == "source" else self.target


IN_PROJECT: Final = EdgeType("IN_PROJECT", "Session", "Project", "source")
OF_USER: Final = EdgeType("OF_USER", "Session", "User", "source")
HAS_INTERACTION: Final = EdgeType("HAS_INTERACTION", "Session", "Interaction", "target")
HAS_HANDOFF: Final = EdgeType("HAS_HANDOFF", "Session", "Handoff", "target")
FROM: Final = EdgeType("FROM", "Handoff", "Agent", "source")
TO: Final = EdgeType("TO", "Handoff", "Agent", "source")
ABOUT_SESSION: Final = EdgeType("ABOUT_SESSION", "Hypothesis", "Session", "source")
TARGETS: Final = EdgeType("TARGETS", "Hypothesis", "Agent", "source")
HYPOTHESIS_SUPPORTED_BY: Final = EdgeType("SUPPORTED_BY", "Hypothesis", "Evidence", "source")
HAS_PROFILE: Final = EdgeType("HAS_PROFILE", "User", "Profile", "target")
IN_COMPETENCE: Final = EdgeType("IN_COMPETENCE", "Profile", "Competence", "source")
PROFILE_SUPPORTED_BY: Final = EdgeType("SUPPORTED_BY", "Profile", "Evidence", "source")
HAS_VERSION: Final = EdgeType("HAS_VERSION", "Template", "TemplateVersion", "source")
ACTIVE: Final = EdgeType("ACTIVE", "Template", "TemplateVersion", "source", sole=True)

EDGE_TYPES: Final = (
    IN_PROJECT,
    OF_USER,
    HAS_INTERACTION,
    HAS_HANDOFF,
    FROM,
    TO,
    ABOUT_SESSION,
    TARGETS,
    HYPOTHESIS_SUPPORTED_BY,
    HAS_PROFILE,
    IN_COMPETENCE,
    PROFILE_SUPPORTED_BY,
    HAS_VERSION,
    ACTIVE,
)
