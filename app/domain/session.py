"""A session: a conversation of one user with agents, from its opening to its end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from app.domain.errors import Conflict, NotFound, RuleBroken, SessionNotActive
from app.domain.events import PERSONAL, SUBJECT, Stream
from app.domain.text import checked_id, checked_words


class Cause(StrEnum):
    """Why a session ended without being closed in order."""

    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SessionOpened:
    user: str = field(metadata=SUBJECT)
    project: str
    agent: str


@dataclass(frozen=True, slots=True)
class MessageAccepted:
    message: str
    user: str = field(metadata=SUBJECT)
    text: str | None = field(metadata=PERSONAL)


@dataclass(frozen=True, slots=True)
class TurnClosed:
    turn: int
    message: str
    agent: str
    user: str = field(metadata=SUBJECT)
    question: str | None = field(metadata=PERSONAL)
    answer: str | None = field(metadata=PERSONAL)


@dataclass(frozen=True, slots=True)
class HandoffOffered:
    from_agent: str
    to_agent: str
    project: str
    user: str = field(metadata=SUBJECT)
    reason: str | None = field(metadata=PERSONAL)


@dataclass(frozen=True, slots=True)
class HandoffAccepted:
    """`offer` is the version of the offering event in this stream."""

    offer: int
    agent: str


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """`first` and `last` are the versions of the conversation's first and last event; None where nothing was said."""

    user: str = field(metadata=SUBJECT)
    project: str
    turns: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class SessionClosedAbnormally:
    """The same as `SessionClosed`, with the cause."""

    user: str = field(metadata=SUBJECT)
    project: str
    turns: int
    first: int | None
    last: int | None
    cause: Cause


SessionEvent = (
    SessionOpened
    | MessageAccepted
    | TurnClosed
    | HandoffOffered
    | HandoffAccepted
    | SessionClosed
    | SessionClosedAbnormally
)


@dataclass(frozen=True, slots=True)
class Session:
    """What the decisions below need to know; `version` is that of the last event folded in."""

    version: int
    user: str
    project: str
    agent: str
    closed: bool = False
    turns: int = 0
    accepted: Mapping[str, str | None] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    offers: Mapping[int, str] = field(default_factory=dict)


def stream(tenant: str, session: str) -> Stream:
    return Stream(checked_id("tenant", tenant), "session", checked_id("session", session))


def open_session(*, user: str, project: str, agent: str) -> tuple[SessionEvent, ...]:
    return (
        SessionOpened(
            user=checked_id("user", user), project=checked_id("project", project), agent=checked_id("agent", agent)
        ),
    )


def accept_message(session: Session, *, message: str, text: str) -> tuple[SessionEvent, ...]:
    """Nothing, if this very message was accepted before; a retry by the client is no second message."""
    checked_id("message", message)
    checked_words("message text", text)
    if message in session.accepted:
        # The words of an erased person are gone: nothing is left to compare with, and the message was accepted.
        if session.accepted[message] not in {text, None}:
            raise Conflict(f"message {message!r} was accepted before with another text; give the new text its own id")
        return ()
    _must_be_active(session)
    return (MessageAccepted(message=message, user=session.user, text=text),)


def close_turn(session: Session, *, message: str, answer: str) -> tuple[SessionEvent, ...]:
    _must_be_active(session)
    checked_words("answer", answer)
    if message not in session.accepted:
        raise NotFound(f"there is no message {message!r} in this session; accept it first")
    if message not in session.waiting:
        raise Conflict(f"the turn of message {message!r} is closed already")
    return (
        TurnClosed(
            turn=session.turns + 1,
            message=message,
            agent=session.agent,
            user=session.user,
            question=session.accepted[message],
            answer=answer,
        ),
    )


def offer_handoff(session: Session, *, to_agent: str, reason: str) -> tuple[SessionEvent, ...]:
    _must_be_active(session)
    checked_id("agent", to_agent)
    if to_agent == session.agent:
        raise RuleBroken(f"agent {to_agent!r} has the session already; hand it to another")
    return (
        HandoffOffered(
            from_agent=session.agent,
            to_agent=to_agent,
            project=session.project,
            user=session.user,
            reason=checked_words("reason", reason),
        ),
    )


def accept_handoff(session: Session, *, offer: int, agent: str) -> tuple[SessionEvent, ...]:
    _must_be_active(session)
    if offer not in session.offers:
        raise NotFound(f"there is no open handoff offer at version {offer}; it was never made, or is accepted already")
    if session.offers[offer] != agent:
        raise RuleBroken(f"the handoff at version {offer} was offered to {session.offers[offer]!r}, not to {agent!r}")
    return (HandoffAccepted(offer=offer, agent=agent),)


def close_session(session: Session) -> tuple[SessionEvent, ...]:
    _must_be_active(session)
    first, last = _window(session)
    return (SessionClosed(user=session.user, project=session.project, turns=session.turns, first=first, last=last),)


def close_abnormally(session: Session, *, cause: Cause) -> tuple[SessionEvent, ...]:
    _must_be_active(session)
    first, last = _window(session)
    return (
        SessionClosedAbnormally(
            user=session.user, project=session.project, turns=session.turns, first=first, last=last, cause=cause
        ),
    )


def fold(events: Iterable[SessionEvent]) -> Session:
    """The state after `events`, of which there is at least one."""
    state = None
    for event in events:
        state = evolve(state, event)
    if state is None:
        raise NotFound("there is no such session; its stream has no event")
    return state


def evolve(state: Session | None, event: SessionEvent) -> Session:
    if isinstance(event, SessionOpened):
        return Session(version=1, user=event.user, project=event.project, agent=event.agent)
    if state is None:
        raise RuleBroken(f"a session cannot begin with {type(event).__name__}; its stream is damaged")
    state = replace(state, version=state.version + 1)
    match event:
        case MessageAccepted():
            return replace(
                state,
                accepted={**state.accepted, event.message: event.text},
                waiting=(*state.waiting, event.message),
            )
        case TurnClosed():
            return replace(
                state, turns=event.turn, waiting=tuple(each for each in state.waiting if each != event.message)
            )
        case HandoffOffered():
            return replace(state, offers={**state.offers, state.version: event.to_agent})
        case HandoffAccepted():
            # An accepted handoff settles the offers that compete with it: they were made by an agent that is gone.
            return replace(state, agent=event.agent, offers={})
        case SessionClosed() | SessionClosedAbnormally():
            return replace(state, closed=True)
        case _:
            assert_never(event)


def _must_be_active(session: Session) -> None:
    if session.closed:
        raise SessionNotActive("the session is closed; open a new one to go on talking")


def _window(session: Session) -> tuple[int | None, int | None]:
    # Version 1 is the opening itself; whatever came after it is the conversation.
    return (2, session.version) if session.version > 1 else (None, None)
