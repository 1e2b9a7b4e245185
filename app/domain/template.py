"""A template: numbered versions of a prompt text, one of them active."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from app.domain.errors import NotFound
from app.domain.events import Stream
from app.domain.text import checked_id, checked_words


@dataclass(frozen=True, slots=True)
class TemplateVersionPublished:
    """`number` counts 1, 2, 3 … within the template; `hash` is the SHA-256 of the body in UTF-8, in hex."""

    number: int
    language: str
    hash: str
    body: str


@dataclass(frozen=True, slots=True)
class TemplateActivated:
    number: int


TemplateEvent = TemplateVersionPublished | TemplateActivated


@dataclass(frozen=True, slots=True)
class Template:
    version: int = 0
    numbers: tuple[int, ...] = ()
    last_hash: str | None = None
    active: int | None = None


def stream(tenant: str, name: str) -> Stream:
    return Stream(checked_id("tenant", tenant), "template", checked_id("template", name))


def publish(template: Template, *, language: str, body: str) -> tuple[TemplateEvent, ...]:
    """Nothing, if the newest version has this very body (G-49)."""
    digest = hashlib.sha256(checked_words("template body", body).encode()).hexdigest()
    if digest == template.last_hash:
        return ()
    number = max(template.numbers, default=0) + 1
    return (TemplateVersionPublished(number=number, language=checked_id("language", language), hash=digest, body=body),)


def activate(template: Template, *, number: int) -> tuple[TemplateEvent, ...]:
    """Nothing, if that version is the active one already."""
    if number not in template.numbers:
        raise NotFound(f"the template has no version {number}; it has {list(template.numbers)}")
    return () if number == template.active else (TemplateActivated(number=number),)


def fold(events: Iterable[TemplateEvent]) -> Template:
    """The state after `events`."""
    state = Template()
    for event in events:
        state = evolve(state, event)
    return state


def evolve(state: Template, event: TemplateEvent) -> Template:
    state = replace(state, version=state.version + 1)
    match event:
        case TemplateVersionPublished():
            return replace(state, numbers=(*state.numbers, event.number), last_hash=event.hash)
        case TemplateActivated():
            return replace(state, active=event.number)
        case _:
            assert_never(event)
