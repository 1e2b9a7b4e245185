"""The words in which demo data is written down: plain values, of which each line becomes one event or two."""

from dataclasses import dataclass

from app.domain.session import Cause


@dataclass(frozen=True, slots=True)
class Say:
    """A message of the user, and what the agent answered; without an answer the turn stays open."""

    question: str
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class HandOver:
    """An offer to another agent, which accepts it or lets it lie."""

    to: str
    reason: str
    accepted: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """The end of a session; a cause makes it an abnormal one."""

    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class SessionStory:
    id: str
    project: str
    user: str
    agent: str
    script: tuple[Say | HandOver | End, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the reviewer decided; a reason dismisses, no reason accepts."""

    reviewer: str
    dismissed_for: str | None = None


@dataclass(frozen=True, slots=True)
class HypothesisStory:
    """`cites` are versions of events of the session."""

    id: str
    session: str
    agent: str
    description: str
    cites: tuple[int, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class ProfileStory:
    """Levels with their statements, in the order of their recording; a reason erases the profile at the end."""

    user: str
    competence: str
    session: str
    records: tuple[tuple[int, str], ...]
    cites: tuple[int, ...] = ()
    erased_for: str | None = None


@dataclass(frozen=True, slots=True)
class TemplateStory:
    """Bodies in the order of their publication, from number 1 on, and the numbers that were made active in turn."""

    name: str
    language: str
    bodies: tuple[str, ...]
    active: tuple[int, ...] = (1,)


Story = SessionStory | HypothesisStory | ProfileStory | TemplateStory
