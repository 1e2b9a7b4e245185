"""A profile: what is known of a user in one competence; the last value wins, and it can be erased."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, assert_never

from app.domain.errors import NotFound, RuleBroken
from app.domain.events import PERSONAL, SUBJECT, Evidence, Stream
from app.domain.text import checked_id, checked_words

COMPETENCES: Final = (
    "architecture",
    "backend",
    "data",
    "design",
    "frontend",
    "operations",
    "product",
    "security",
    "testing",
    "writing",
)
"""The closed catalogue: health, personality, age or gender have no way in."""

LEVELS: Final = range(1, 6)
"""1 (heard of it) to 5 (teaches it)."""


@dataclass(frozen=True, slots=True)
class ProfileRecorded:
    user: str = field(metadata=SUBJECT)
    competence: str
    level: int
    evidence: tuple[Evidence, ...]
    statement: str | None = field(metadata=PERSONAL)


@dataclass(frozen=True, slots=True)
class ProfileErased:
    user: str = field(metadata=SUBJECT)
    competence: str
    reason: str


ProfileEvent = ProfileRecorded | ProfileErased


@dataclass(frozen=True, slots=True)
class Profile:
    version: int
    erased: bool


def stream(tenant: str, user: str, competence: str) -> Stream:
    """One stream for each user and competence. A competence has no slash, so the two never run together."""
    if competence not in COMPETENCES:
        raise RuleBroken(f"competence {competence!r} is not in the catalogue; choose one of {', '.join(COMPETENCES)}")
    return Stream(checked_id("tenant", tenant), "profile", f"{competence}/{checked_id('user', user)}")


def record(
    *, user: str, competence: str, level: int, statement: str, evidence: Iterable[Evidence]
) -> tuple[ProfileEvent, ...]:
    if level not in LEVELS:
        raise RuleBroken(f"level {level} is not on the scale; give one from {LEVELS[0]} to {LEVELS[-1]}")
    return (
        ProfileRecorded(
            user=user,
            competence=competence,
            level=level,
            evidence=tuple(dict.fromkeys(evidence)),
            statement=checked_words("statement", statement),
        ),
    )


def erase(profile: Profile, *, user: str, competence: str, reason: str) -> tuple[ProfileEvent, ...]:
    """Nothing, if it is erased already."""
    if profile.erased:
        return ()
    return (ProfileErased(user=user, competence=competence, reason=checked_words("reason", reason)),)


def fold(events: Iterable[ProfileEvent]) -> Profile:
    """The state after `events`, of which there is at least one."""
    state = None
    for event in events:
        state = evolve(state, event)
    if state is None:
        raise NotFound("there is no such profile; its stream has no event")
    return state


def evolve(state: Profile | None, event: ProfileEvent) -> Profile:
    version = 1 if state is None else state.version + 1
    match event:
        case ProfileRecorded():
            return Profile(version=version, erased=False)
        case ProfileErased():
            return Profile(version=version, erased=True)
        case _:
            assert_never(event)
