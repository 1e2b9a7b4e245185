"""The shape that most use cases share: load a stream under its lock, decide, append what was decided."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from app.domain.errors import NotFound
from app.domain.events import Meta, Recorded, Stream, events_of
from app.use_cases.ports import Append, Begin

State = TypeVar("State")


def change_stream(
    begin: Begin,
    stream: Stream,
    *,
    fold: Callable[[Sequence[Any]], State],
    decide: Callable[[State], Sequence[Any]],
    meta: Meta | None,
    may_be_new: bool = False,
) -> Sequence[Recorded]:
    """What was appended, which is nothing where `decide` found nothing to do.

    Raises `NotFound` for a stream without events, unless it `may_be_new`.
    """
    with begin() as work:
        history = work.load(stream)
        if not history and not may_be_new:
            raise NotFound(
                f"tenant {stream.tenant!r} has no {stream.kind} {stream.id!r}; check the id, or create it first"
            )
        events = decide(fold(events_of(history)))
        if not events:
            return ()
        return work.append(Append(stream, events, len(history) or "new", meta or Meta()))
