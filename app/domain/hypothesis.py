"""A hypothesis: what an agent believes about a session or another agent, with the events that support it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from app.domain.errors import Conflict, NotFound, RuleBroken
from app.domain.events import PERSONAL, SUBJECT, Evidence, Stream
from app.domain.text import checked_id, checked_words


class Status(StrEnum):
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    DISMISSED = "dismissed"


@dataclass(frozen=True, slots=True)
class HypothesisProposed:
    session: str
    agent: str
    user: str = field(metadata=SUBJECT)
    evidence: tuple[Evidence, ...]
    description: str | None = field(metadata=PERSONAL)


@dataclass(frozen=True, slots=True)
class HypothesisAccepted:
    reviewer: str


@dataclass(frozen=True, slots=True)
class HypothesisDismissed:
    reviewer: str
    user: str = field(metadata=SUBJECT)
    reason: str | None = field(metadata=PERSONAL)


HypothesisEvent = HypothesisProposed | HypothesisAccepted | HypothesisDismissed


@dataclass(frozen=True, slots=True)
class Hypothesis:
    version: int
    user: str
    status: Status


def stream(tenant: str, hypothesis: str) -> Stream:
    return Stream(checked_id("tenant", tenant), "hypothesis", checked_id("hypothesis", hypothesis))


def propose(
    *, session: str, agent: str, user: str, description: str, evidence: Iterable[Evidence]
) -> tuple[HypothesisEvent, ...]:
    """`agent` is whom the hypothesis targets; `evidence` is deduplicated and kept in its order."""
    return (
        HypothesisProposed(
            session=session,
            agent=checked_id("agent", agent),
            user=user,
            evidence=tuple(dict.fromkeys(evidence)),
            description=checked_words("description", description),
        ),
    )


def accept(hypothesis: Hypothesis, *, reviewer: str) -> tuple[HypothesisEvent, ...]:
    _must_be_open(hypothesis)
    return (HypothesisAccepted(reviewer=checked_id("reviewer", reviewer)),)


def dismiss(hypothesis: Hypothesis, *, reviewer: str, reason: str) -> tuple[HypothesisEvent, ...]:
    _must_be_open(hypothesis)
    return (
        HypothesisDismissed(
            reviewer=checked_id("reviewer", reviewer),
            user=hypothesis.user,
            reason=checked_words("reason", reason),
        ),
    )


def fold(events: Iterable[HypothesisEvent]) -> Hypothesis:
    """The state after `events`, of which there is at least one."""
    state = None
    for event in events:
        state = evolve(state, event)
    if state is None:
        raise NotFound("there is no such hypothesis; its stream has no event")
    return state


def evolve(state: Hypothesis | None, event: HypothesisEvent) -> Hypothesis:
    if isinstance(event, HypothesisProposed):
        return Hypothesis(version=1, user=event.user, status=Status.PROPOSED)
    if state is None:
        raise RuleBroken(f"a hypothesis cannot begin with {type(event).__name__}; its stream is damaged")
    match event:
        case HypothesisAccepted():
            return replace(state, version=state.version + 1, status=Status.ACCEPTED)
        case HypothesisDismissed():
            return replace(state, version=state.version + 1, status=Status.DISMISSED)
        case _:
            assert_never(event)


def _must_be_open(hypothesis: Hypothesis) -> None:
    if hypothesis.status is not Status.PROPOSED:
        raise Conflict(f"the hypothesis is {hypothesis.status.value} already; a decision is made once")
