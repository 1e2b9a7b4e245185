"""A picture of the graph for people: the first few of everything, and how many there are in all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.infrastructure.graph.client import GraphClient, Statement

PROJECTS: Final = """
    MATCH (s:Session)-[:IN_PROJECT]->(p:Project) WHERE p.tenant = $tenant
    RETURN p.key AS key, p.id AS id, count(s) AS sessions ORDER BY key LIMIT $limit
"""
SESSIONS: Final = """
    MATCH (s:Session)-[:IN_PROJECT]->(p:Project) WHERE p.key = $project
    RETURN s.key AS key, s.id AS id, s.status AS status, s.cause AS cause ORDER BY key LIMIT $limit
"""
USERS: Final = """
    MATCH (s:Session)-[:OF_USER]->(u:User) WHERE s.key IN $keys
    RETURN s.key AS session, u.id AS user ORDER BY session, user
"""
INTERACTIONS: Final = """
    MATCH (s:Session)-[:HAS_INTERACTION]->(i:Interaction) WHERE s.key IN $keys
    RETURN s.key AS session, i.first_version AS first, i.last_version AS last, i.turns AS turns ORDER BY session
"""
HANDOFFS: Final = """
    MATCH (s:Session)-[:HAS_HANDOFF]->(h:Handoff), (h)-[:FROM]->(a:Agent), (h)-[:TO]->(b:Agent) WHERE s.key IN $keys
    RETURN s.key AS session, h.offer AS offer, a.id AS source, b.id AS target, h.reason AS reason
    ORDER BY session, offer
"""
HYPOTHESES: Final = """
    MATCH (h:Hypothesis)-[:ABOUT_SESSION]->(s:Session) WHERE s.key IN $keys
    OPTIONAL MATCH (h)-[:SUPPORTED_BY]->(e:Evidence)
    RETURN s.key AS session, h.id AS id, h.status AS status, h.description AS description, count(e) AS evidence
    ORDER BY session, id
"""
PROFILES: Final = """
    MATCH (u:User)-[:HAS_PROFILE]->(p:Profile)-[:IN_COMPETENCE]->(c:Competence) WHERE u.tenant = $tenant
    OPTIONAL MATCH (p)-[:SUPPORTED_BY]->(e:Evidence)
    RETURN p.key AS key, u.id AS user, c.id AS competence, p.level AS level, count(e) AS evidence
    ORDER BY key LIMIT $limit
"""
TEMPLATES: Final = """
    MATCH (t:Template)-[:HAS_VERSION]->(v:TemplateVersion) WHERE t.tenant = $tenant
    RETURN t.key AS key, t.id AS id, t.active AS active, count(v) AS versions ORDER BY key LIMIT $limit
"""


@dataclass(frozen=True, slots=True)
class Handoff:
    source: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Hypothesis:
    id: str
    status: str
    description: str
    evidence: int


@dataclass(frozen=True, slots=True)
class Interaction:
    """The window of the conversation's events, by version."""

    first: int
    last: int
    turns: int


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    status: str
    cause: str | None
    users: tuple[str, ...]
    interaction: Interaction | None
    handoffs: tuple[Handoff, ...]
    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """`sessions` are the first of `total`."""

    id: str
    total: int
    sessions: tuple[Session, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    user: str
    competence: str
    level: int
    evidence: int


@dataclass(frozen=True, slots=True)
class Template:
    id: str
    active: int | None
    versions: int


@dataclass(frozen=True, slots=True)
class Picture:
    projects: tuple[Project, ...]
    profiles: tuple[Profile, ...]
    templates: tuple[Template, ...]


def picture(client: GraphClient, *, tenant: str, limit: int) -> Picture:
    """At most `limit` of each, by key. Raises `GraphUnavailable`."""
    bound = {"tenant": tenant, "limit": limit}
    return Picture(
        projects=tuple(
            Project(each["id"], each["sessions"], _sessions(client, each["key"], limit))
            for each in client.read(Statement(PROJECTS, bound))
        ),
        profiles=tuple(
            Profile(each["user"], each["competence"], each["level"], each["evidence"])
            for each in client.read(Statement(PROFILES, bound))
        ),
        templates=tuple(
            Template(each["id"], each["active"], each["versions"]) for each in client.read(Statement(TEMPLATES, bound))
        ),
    )


def _sessions(client: GraphClient, project: str, limit: int) -> tuple[Session, ...]:
    found = client.read(Statement(SESSIONS, {"project": project, "limit": limit}))
    keys = [each["key"] for each in found]

    def about(query: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        return _by_session(client.read(Statement(query, {"keys": keys})))

    users, windows, handoffs, hypotheses = map(about, (USERS, INTERACTIONS, HANDOFFS, HYPOTHESES))
    return tuple(
        Session(
            id=each["id"],
            status=each["status"] or "open",
            cause=each["cause"],
            users=tuple(row["user"] for row in users.get(each["key"], ())),
            interaction=next(map(_interaction, windows.get(each["key"], ())), None),
            handoffs=tuple(map(_handoff, handoffs.get(each["key"], ()))),
            hypotheses=tuple(map(_hypothesis, hypotheses.get(each["key"], ()))),
        )
        for each in found
    )


def _by_session(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(row["session"], []).append(row)
    return grouped


def _interaction(row: Mapping[str, Any]) -> Interaction:
    return Interaction(row["first"], row["last"], row["turns"])


def _handoff(row: Mapping[str, Any]) -> Handoff:
    return Handoff(row["source"], row["target"], row["reason"] or "")


def _hypothesis(row: Mapping[str, Any]) -> Hypothesis:
    return Hypothesis(row["id"], row["status"], row["description"] or "", row["evidence"])
