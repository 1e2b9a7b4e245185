"""The envelope of every event: which stream it belongs to, where it stands in the log, and whose words it holds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from app.domain.errors import RuleBroken

PERSONAL: Final[Mapping[str, str]] = {"kept": "personal"}
"""Field metadata: words or names of a person. Stored apart from the facts, and None once the person is erased."""

SUBJECT: Final[Mapping[str, str]] = {"kept": "subject"}
"""Field metadata: the id of the person whom the personal fields of this event are about."""

Expected = int | Literal["new", "any"]
"""The version a stream must have for an append: a number, "new" (no event yet), or "any"."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The history of one thing; its first event has version 1."""

    tenant: str
    kind: str
    id: str

    @property
    def name(self) -> str:
        """How the log stores it, e.g. `session-42`; unique within the tenant."""
        return f"{self.kind}-{self.id}"


@dataclass(frozen=True, slots=True)
class Meta:
    """Who caused an event, and as part of what."""

    actor: str = "system"
    causation: UUID | None = None
    correlation: UUID | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """An event that supports a claim: a reference to the log, never a copy."""

    event_id: UUID
    session: str
    version: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event of a type that this code does not know; `data` are its facts as they are stored."""

    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as the log keeps it.

    `position` is global and grows, but with holes and, for a moment, out of commit order; `version` counts 1, 2, 3 …
    within the stream. `recorded_at` is UTC, by the database's clock.
    """

    position: int
    id: UUID
    stream: Stream
    version: int
    type: str
    schema: int
    event: Any
    subject: str | None
    meta: Meta
    recorded_at: datetime


def events_of(history: Iterable[Recorded]) -> list[Any]:
    """The events, to be folded. Raises `RuleBroken` for one of a type that this code does not know: what it means for a
    decision cannot be guessed."""
    events = []
    for recorded in history:
        if isinstance(recorded.event, Unknown):
            raise RuleBroken(
                f"{recorded.stream.kind} {recorded.stream.id!r} has an event {recorded.type!r}, which this Retold does "
                "not know; upgrade this process"
            )
        events.append(recorded.event)
    return events
