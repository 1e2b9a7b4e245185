"""Writing a batch so that what cannot be written is found, and nothing else suffers from it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog

from app.domain.errors import GraphUnavailable
from app.infrastructure.postgres import record
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.sentence import one_line
from projector import projections
from projector.changes import Change
from projector.fold import Graph

log = structlog.get_logger()

LONGEST_REASON: Final = 500
"""Characters."""


class Writer(Protocol):
    """Where changes go. Everything raises `GraphUnavailable` where the graph does not answer."""

    def ping(self) -> None:
        """Is the graph there?"""

    def prepare(self) -> None:
        """Make sure of the constraints that writing relies on."""

    def write(self, batch: Graph) -> None:
        """All of `batch` in one transaction, or nothing. Any error but `GraphUnavailable` is the batch's own fault."""


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and what it changes in the graph."""

    lane: tuple[str, str]
    position: int
    version: int
    changes: tuple[Change, ...]
    row: int | None = None


class Placed(Protocol):
    """Anything that says where in the log an event is; events in one lane are told in the order of their positions."""

    @property
    def lane(self) -> tuple[str, str]: ...

    @property
    def position(self) -> int: ...


@dataclass(slots=True)
class Outcome:
    """What became of a batch; it also holds when an outage cut the batch short."""

    applied: list[Told] = field(default_factory=list)
    failed: list[tuple[Told, Exception]] = field(default_factory=list)

    def follows_a_failure(self, event: Placed) -> bool:
        """Whether the event must wait, for one before it in its stream has failed."""
        return any(event.lane == failed.lane and event.position > failed.position for failed, _ in self.failed)


def write_apart(writer: Writer, batch: Sequence[Told], outcome: Outcome) -> None:
    """Write the batch; where it fails, halve it until the events that cannot be written are alone.

    What follows a failed event in its stream is left out: its row stays pending. Raises `GraphUnavailable`; then
    `outcome` tells how far it got.
    """
    batch = [told for told in batch if not outcome.follows_a_failure(told)]
    graph = folded(batch)
    try:
        if graph.nodes:
            writer.write(graph)
    except GraphUnavailable:
        raise
    except Exception as error:
        if len(batch) == 1:
            outcome.failed.append((batch[0], error))
            return
        half = len(batch) // 2
        write_apart(writer, batch[:half], outcome)
        write_apart(writer, batch[half:], outcome)
    else:
        outcome.applied += batch


def folded(batch: Iterable[Told]) -> Graph:
    graph = Graph()
    for told in batch:
        graph.apply(told.changes, position=told.position, version=told.version)
    return graph


def tell(codec: Codec, row: tuple[Any, ...], *, outbox_row: int | None = None) -> Told:
    """What the event stored as `row` changes: nothing, if no projection shows its type, which is logged (G-13, G-24).

    Whatever this raises is the event's own fault.
    """
    recorded = record.recorded(codec, row)
    changes = projections.changes(recorded)
    if changes is None:
        log.warning("no projection shows this type of event; marked", position=recorded.position, type=recorded.type)
    lane = (recorded.stream.tenant, recorded.stream.name)
    return Told(lane, recorded.position, recorded.version, changes or (), outbox_row)


def reason(error: Exception) -> str:
    """What an operator reads of an error; bounded, for it is stored with the row."""
    return one_line(f"{type(error).__name__}: {error}", LONGEST_REASON)
