"""How events are stored: their written-out names, schema versions, consumers, and the way up from older schemas."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from app.domain import hypothesis, profile, projection, session, template
from app.domain.errors import RuleBroken
from app.domain.events import PERSONAL, SUBJECT, Unknown
from app.infrastructure.postgres.tables import AGGREGATE_TYPES

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
"""From one schema of an event to the next; takes and gives its facts and, if not erased, its personal fields."""


class SchemaTooNew(RuleBroken):
    """An event was written by a newer Retold; this one cannot know what it means."""

    code = "schema_too_new"


@dataclass(frozen=True, slots=True)
class EventType:
    """`routes` are the aggregate types of its outbox rows; `upcasters[n]` leads from schema n to n + 1."""

    name: str
    schema: int
    cls: type
    routes: tuple[str, ...]
    upcasters: Mapping[int, Upcaster] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Encoded:
    """An event as columns, as values of JSON; `personal` is None for a type without personal fields."""

    type: EventType
    data: dict[str, Any]
    personal: dict[str, Any] | None
    subject: str | None


SESSION: Final = ("session",)
SHOWN_SESSION: Final = ("session", "graph_projection")
TASK: Final = ("task",)
SHOWN_TASK: Final = ("task", "graph_projection")

EVENT_TYPES: Final = (
    EventType("session.opened", 1, session.SessionOpened, SESSION),
    EventType("session.message_accepted", 1, session.MessageAccepted, SESSION),
    EventType("session.turn_closed", 1, session.TurnClosed, SESSION),
    EventType("session.handoff_offered", 1, session.HandoffOffered, SHOWN_SESSION),
    EventType("session.handoff_accepted", 1, session.HandoffAccepted, SESSION),
    EventType("session.closed", 1, session.SessionClosed, SHOWN_SESSION),
    EventType("session.closed_abnormally", 1, session.SessionClosedAbnormally, SHOWN_SESSION),
    EventType("hypothesis.proposed", 1, hypothesis.HypothesisProposed, SHOWN_TASK),
    EventType("hypothesis.accepted", 1, hypothesis.HypothesisAccepted, SHOWN_TASK),
    EventType("hypothesis.dismissed", 1, hypothesis.HypothesisDismissed, SHOWN_TASK),
    EventType("profile.recorded", 1, profile.ProfileRecorded, SHOWN_TASK),
    EventType("profile.erased", 1, profile.ProfileErased, SHOWN_TASK),
    EventType("template.version_published", 1, template.TemplateVersionPublished, SHOWN_TASK),
    EventType("template.activated", 1, template.TemplateActivated, SHOWN_TASK),
    EventType("projection.row_skipped", 1, projection.RowSkipped, TASK),
)


@dataclass(frozen=True)
class Codec:
    """Events to columns and back. `check()` it once at start; it costs nothing and refuses what would fail later."""

    types: tuple[EventType, ...] = EVENT_TYPES

    def check(self) -> None:
        """Raises `RuleBroken` with the type and what is wrong: doubled, no consumer, a step of its way up missing."""
        _refuse_doubled("name", (each.name for each in self.types))
        _refuse_doubled("class", (each.cls.__qualname__ for each in self.types))
        for each in self.types:
            _check_routes(each)
            _check_chain(each)
            _shape(each.cls)

    def encode(self, event: object) -> Encoded:
        """Raises `RuleBroken` for an event of an unregistered class, or with a value that its field does not allow."""
        kind = self._by_class.get(type(event))
        if kind is None:
            raise RuleBroken(f"{type(event).__name__} is not an event that the log knows; register it in the codec")
        shape = _shape(kind.cls)
        try:
            data = shape.adapter.dump_python(event, mode="json", warnings="error")
            subject = data[shape.subject] if shape.subject else None
            personal = {name: data.pop(name) for name in shape.personal} if shape.personal else None
        except PydanticSerializationError as error:
            raise RuleBroken(f"{kind.name} has a value that the log cannot keep: {error}") from error
        return Encoded(kind, data, personal, subject)

    def decode(self, name: str, schema: int, data: str, personal: str | None) -> object:
        """The event, brought up to today's schema; `Unknown` for a type that this code does not know.

        Personal fields are None where they were erased. Raises `SchemaTooNew`, and `RuleBroken` for damaged columns.
        """
        kind = self._by_name.get(name)
        values = from_json(data)
        if kind is None:
            return Unknown(values)
        if personal is not None:
            values.update(from_json(personal))
        if schema != kind.schema:
            values = _upcast(kind, schema, values)
        shape = _shape(kind.cls)
        if personal is None:
            values = {**dict.fromkeys(shape.personal), **values}
        try:
            return shape.adapter.validate_python(values)
        except ValidationError as error:
            broken = ", ".join(".".join(map(str, each["loc"])) for each in error.errors(include_input=False))
            raise RuleBroken(f"a stored {name} cannot be read: {broken} does not fit schema {kind.schema}") from error

    @cached_property
    def _by_name(self) -> dict[str, EventType]:
        return {each.name: each for each in self.types}

    @cached_property
    def _by_class(self) -> dict[type, EventType]:
        return {each.cls: each for each in self.types}


def json_text(values: object) -> str:
    """Raises `RuleBroken` for what is no Unicode text, such as a lone surrogate."""
    try:
        return to_json(values).decode()
    except PydanticSerializationError as error:
        raise RuleBroken(f"a text cannot be stored: {error}; send valid Unicode") from error


@dataclass(frozen=True, slots=True)
class _Shape:
    adapter: TypeAdapter[Any]
    personal: tuple[str, ...]
    subject: str | None


@cache
def _shape(cls: Any) -> _Shape:  # noqa: ANN401 (a dataclass; its type is not known here)
    subjects = [each.name for each in fields(cls) if each.metadata == SUBJECT]
    return _Shape(
        adapter=TypeAdapter(cls),
        personal=tuple(each.name for each in fields(cls) if each.metadata == PERSONAL),
        subject=subjects[0] if subjects else None,
    )


def _upcast(kind: EventType, schema: int, values: dict[str, Any]) -> dict[str, Any]:
    if schema > kind.schema:
        raise SchemaTooNew(
            f"a stored {kind.name} has schema {schema}, this Retold knows {kind.schema}; upgrade this process"
        )
    for step in range(schema, kind.schema):
        values = kind.upcasters[step](values)
    return values


def _refuse_doubled(what: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise RuleBroken(f"the event {what} {name!r} is registered twice; give each event its own")
        seen.add(name)


def _check_routes(kind: EventType) -> None:
    unknown = [each for each in kind.routes if each not in AGGREGATE_TYPES]
    if unknown or not kind.routes or len(set(kind.routes)) < len(kind.routes):
        raise RuleBroken(
            f"{kind.name} goes to {list(kind.routes)}; it needs consumers, each once, out of {list(AGGREGATE_TYPES)}"
        )


def _check_chain(kind: EventType) -> None:
    missing = [step for step in range(1, kind.schema) if step not in kind.upcasters]
    if missing:
        raise RuleBroken(
            f"{kind.name} has schema {kind.schema} but no upcaster from {missing[0]} to {missing[0] + 1}; write it"
        )
    idle = [step for step in kind.upcasters if step not in range(1, kind.schema)]
    if idle or kind.schema < 1:
        raise RuleBroken(f"{kind.name} has schema {kind.schema}, which its upcasters from {idle} do not lead to")
