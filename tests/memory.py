"""The log in memory: what use cases are tested on. The contract suite keeps it honest."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from app.domain.errors import Conflict, NotFound
from app.domain.events import Meta, Recorded, Stream
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.append import conflict
from app.infrastructure.postgres.codec import Codec, json_text
from app.infrastructure.postgres.hint import no_hint
from app.use_cases.ports import Append, Ids, ParkedRow, ParkedRows


@dataclass(frozen=True, slots=True)
class Kept:
    """An event as columns, JSON as text, so that it is really encoded and decoded."""

    position: int
    id: UUID
    stream: Stream
    version: int
    type: str
    schema: int
    data: str
    personal: str | None
    subject: str | None
    meta: Meta
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Row:
    id: int
    aggregate_type: str
    tenant: str
    stream: str
    position: int
    processed: bool = False
    attempts: int = 0
    error: str = ""
    parked_at: datetime | None = None
    behind: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    events: tuple[Kept, ...] = ()
    rows: tuple[Row, ...] = ()


class MemoryBegin:
    """See `Begin`. Units of work run one after the other."""

    def __init__(self, codec: Codec | None = None, ids: Ids = uuid7, hint: Callable[[], None] = no_hint) -> None:
        self.state = State()
        self._codec = codec or Codec()
        self._ids = ids
        self._hint = hint
        self._lock = threading.Lock()

    @contextmanager
    def __call__(self) -> Iterator["MemoryUnitOfWork"]:
        with self._lock:
            work = MemoryUnitOfWork(self.state, self._codec, self._ids)
            yield work
            if work.doomed:
                raise RuntimeError("an error in this unit of work was swallowed inside its block")
            wrote = work.state is not self.state
            self.state = work.state
        if wrote:
            self._hint()

    def park(self, head: int, *behind: int) -> None:
        """Set rows aside, as the projector does after the last attempt at the head of a stream."""
        parked_at = datetime.now(UTC)
        rows = {each.id: each for each in self.state.rows}
        rows[head] = replace(rows[head], attempts=3, error="boom", parked_at=parked_at)
        rows |= {each: replace(rows[each], parked_at=parked_at, behind=head) for each in behind}
        self.state = replace(self.state, rows=tuple(rows.values()))


@dataclass(slots=True)
class MemoryUnitOfWork:
    state: State
    codec: Codec
    ids: Ids
    doomed: bool = False
    appended: bool = False
    _parked: "MemoryParkedRows" = field(init=False)

    def __post_init__(self) -> None:
        self._parked = MemoryParkedRows(self)

    @property
    def parked(self) -> ParkedRows:
        return self._parked

    def load(self, stream: Stream) -> Sequence[Recorded]:
        return self.read(stream)

    def read(self, stream: Stream) -> Sequence[Recorded]:
        return [self._recorded(each) for each in self.state.events if each.stream == stream]

    def find(self, ids: Iterable[UUID]) -> Mapping[UUID, Recorded]:
        wanted = set(ids)
        return {each.id: self._recorded(each) for each in self.state.events if each.id in wanted}

    def append(self, *appends: Append) -> Sequence[Recorded]:
        if self.appended:
            raise RuntimeError("append was called before in this unit of work")
        if not appends:
            return ()
        self.appended = True
        with self._guarded():
            self._refuse(appends)
            for each in sorted(appends, key=lambda each: (each.stream.tenant, each.stream.name)):
                self._append(each)
        new = self.state.events[-sum(len(each.events) for each in appends) :]
        return [self._recorded(kept) for each in appends for kept in new if kept.stream == each.stream]

    def _refuse(self, appends: Sequence[Append]) -> None:
        if not all(each.events for each in appends):
            raise RuntimeError("an append has no event")
        if len({each.stream for each in appends}) < len(appends):
            raise RuntimeError("two appends to one stream in one call")
        for each in appends:
            actual = self._version(each.stream)
            expected = {"new": 0, "any": actual}.get(str(each.expected), each.expected)
            if expected != actual:
                raise Conflict(conflict(each.stream, int(expected), actual))

    def _append(self, append: Append) -> None:
        for event in append.events:
            encoded = self.codec.encode(event)
            kept = Kept(
                position=len(self.state.events) + 1,
                id=self.ids(),
                stream=append.stream,
                version=self._version(append.stream) + 1,
                type=encoded.type.name,
                schema=encoded.type.schema,
                data=json_text(encoded.data),
                personal=None if encoded.personal is None else json_text(encoded.personal),
                subject=encoded.subject,
                meta=append.meta,
                recorded_at=datetime.now(UTC),
            )
            first = len(self.state.rows) + 1
            rows = tuple(
                Row(id_, route, append.stream.tenant, append.stream.name, kept.position)
                for id_, route in enumerate(encoded.type.routes, first)
            )
            self.state = State((*self.state.events, kept), (*self.state.rows, *rows))

    def _version(self, stream: Stream) -> int:
        return sum(1 for each in self.state.events if each.stream == stream)

    def _recorded(self, kept: Kept) -> Recorded:
        event = self.codec.decode(kept.type, kept.schema, kept.data, kept.personal)
        return Recorded(
            kept.position, kept.id, kept.stream, kept.version, kept.type, kept.schema, event, kept.subject, kept.meta,
            kept.recorded_at,
        )  # fmt: skip

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.doomed = True
            raise


@dataclass(frozen=True, slots=True)
class MemoryParkedRows:
    work: MemoryUnitOfWork

    def head(self, row: int) -> ParkedRow:
        with self.work._guarded():
            found = next((each for each in self._all() if each.id == row), None)
            if found is None or found.parked_at is None:
                raise NotFound(f"outbox row {row} is not parked")
            if found.behind is not None:
                raise Conflict(f"outbox row {row} waits behind row {found.behind}")
            types = {each.position: each.type for each in self.work.state.events}
            return ParkedRow(
                found.id, found.tenant, found.stream, found.position, types.get(found.position), found.attempts,
                found.error, found.parked_at, found.behind,
            )  # fmt: skip

    def retry(self, row: ParkedRow) -> int:
        freed = [each for each in self._all() if (each.tenant, each.stream) == (row.tenant, row.stream)]
        for each in freed:
            self._put(replace(each, parked_at=None, behind=None, attempts=0))
        return len(freed)

    def skip(self, row: ParkedRow) -> int:
        (head,) = (each for each in self._all() if each.id == row.id)
        self._put(replace(head, processed=True))
        return self.retry(row)

    def _all(self) -> list[Row]:
        return [each for each in self.work.state.rows if each.parked_at is not None and not each.processed]

    def _put(self, row: Row) -> None:
        rows: Any = tuple(row if each.id == row.id else each for each in self.work.state.rows)
        self.work.state = replace(self.work.state, rows=rows)
