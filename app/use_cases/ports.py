"""What the use cases need from the outside, as roles; the adapters are named in bootstrap alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from app.domain.events import Expected, Meta, Recorded, Stream


@dataclass(frozen=True, slots=True)
class Append:
    """Events to write to one stream, all of them at once, if it has the expected version."""

    stream: Stream
    events: Sequence[Any]
    expected: Expected
    meta: Meta = field(default_factory=Meta)


@dataclass(frozen=True, slots=True)
class ParkedRow:
    """A row of the outbox that was set aside.

    The head of a stream has used up its attempts; the other rows of that stream wait behind it (`behind` is its id).
    """

    id: int
    tenant: str
    stream: str
    position: int
    type: str | None
    attempts: int
    error: str
    parked_at: datetime
    behind: int | None


class ParkedRows(Protocol):
    """The operator's view of the rows that were set aside, inside a unit of work."""

    def head(self, row: int) -> ParkedRow:
        """The parked row, locked. Raises `NotFound` where it is not parked, `Conflict` where it waits behind one."""

    def retry(self, row: ParkedRow) -> int:
        """Make the row and the rest of its stream pending again, attempts at 0. Returns how many rows."""

    def skip(self, row: ParkedRow) -> int:
        """Mark the row as done without projecting it; the rest of its stream is pending again. Returns how many."""


class UnitOfWork(Protocol):
    """One transaction: what it appends is stored together with the rows of its consumers, or not at all."""

    @property
    def parked(self) -> ParkedRows:
        """The rows that were set aside."""

    def load(self, stream: Stream) -> Sequence[Recorded]:
        """Every event of `stream` in order, with the stream locked until the end: nobody else appends meanwhile."""

    def read(self, stream: Stream) -> Sequence[Recorded]:
        """Every event of `stream` in order, without a lock."""

    def find(self, ids: Iterable[UUID]) -> Mapping[UUID, Recorded]:
        """The events with these ids; those that do not exist are absent. Tenants are not told apart: check `stream`."""

    def append(self, *appends: Append) -> Sequence[Recorded]:
        """Write events and their outbox rows in one statement, streams locked in the order of their names.

        To be called at most once in a unit of work, so that no two of them can wait for each other; a stream comes
        once, with at least one event (a `RuntimeError` otherwise). Returns what was stored, in the order given.

        Raises `Conflict` where a stream does not have the expected version; then nothing is stored, no position drawn.
        """


class Begin(Protocol):
    """Starts a unit of work; leaving the block commits, an error rolls back. Raises `LogUnavailable`."""

    def __call__(self) -> AbstractContextManager[UnitOfWork]: ...


class EventLog(Protocol):
    """Reading what happened, in pages, with flat memory however long the log."""

    def stream(self, stream: Stream, *, after: int = 0) -> Iterator[Recorded]:
        """The events of one stream with a version above `after`, in order."""

    def read(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        tenant: str | None = None,
        types: Sequence[str] = (),
    ) -> Iterator[Recorded]:
        """Events by position, above `after` and up to `until`, of one tenant or all, of these types or all."""

    def head(self) -> int:
        """The highest position that is visible; 0 for an empty log."""


class Ids(Protocol):
    """Where new ids come from."""

    def __call__(self) -> UUID: ...
