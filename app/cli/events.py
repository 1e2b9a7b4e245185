"""`retold events`: look at the log, page through it, follow it."""

import difflib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Final

import typer
from pydantic_core import from_json
from rich.cells import cell_len
from rich.text import Text

from app.cli.output import AsJson, console, print_json, print_json_line
from app.domain.errors import RuleBroken
from app.domain.events import Recorded, Unknown
from app.domain.text import checked_id
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.servers import resolve_database
from app.infrastructure.postgres.codec import EVENT_TYPES, Codec
from app.infrastructure.postgres.watch import Filter, Watch, watching
from app.settings import Settings, load_settings

TAIL: Final = 20
MOST: Final = 10_000
PAGE: Final = 500
HIGHEST: Final = 2**63 - 1
LOOK_AGAIN: Final = timedelta(milliseconds=500)
LOOK_AGAIN_SOON: Final = timedelta(milliseconds=50)
CUT: Final = 72
HEADER: Final = ("position", "time (UTC)", "stream@version", "type", "data")
WIDTHS: Final = (8, 14, 36, 26, 0)
"""Of the columns while following, when what comes is not known yet."""

UNREADABLE: Final = "(unreadable)"

Cells = tuple[str, str, str, str, str]

Tail = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MOST,
        metavar="COUNT",
        show_default=str(TAIL),
        help="How many: the newest ones, or with --after the next ones.",
    ),
]
After = Annotated[
    int | None, typer.Option(min=0, max=HIGHEST, metavar="POSITION", help="Only events above this position.")
]
Type = Annotated[
    list[str] | None, typer.Option("--type", metavar="NAME", help="Only events of this type; may be repeated.")
]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An event that does not fit its type: its facts as they are stored, and why they cannot be read."""

    data: Mapping[str, Any]
    reason: str


class Lenient(Codec):
    """For whoever looks: one damaged event is no reason to show none."""

    def decode(self, name: str, schema: int, data: str, personal: str | None) -> object:
        try:
            return super().decode(name, schema, data, personal)
        except Exception as error:  # also what an upcaster makes of facts that it did not expect
            return Unreadable({**from_json(data), **from_json(personal or "{}")}, str(error))


def events(
    tail: Tail = None,
    after: After = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    stream: Annotated[str | None, typer.Option(metavar="NAME", help="Only this stream, such as session-42.")] = None,
    type_: Type = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", show_default="RETOLD_TENANT", help="Only this tenant.")
    ] = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Every tenant.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show events of the log, by position; --json prints a list, and with --follow an object a line.

    Every event is shown once, in order, so that --follow --after with the last position seen takes up where it
    ended. An event whose transaction is still open holds back those above it. Tables cut long text at “…”. An event
    that this Retold cannot read is shown as it is stored, and marked.
    """
    settings = load_settings()
    if follow and after is not None and tail is not None:
        raise RuleBroken("--tail and --after both say where to begin to follow: leave one of them out")
    wanted = _filter(settings, stream=stream, types=type_ or (), tenant=tenant, all_tenants=all_tenants)
    count = TAIL if tail is None else tail
    url = resolve_database(settings, Home(settings.home))
    with watching(url, connect_timeout=settings.database_connect_timeout) as strict:
        watch = replace(strict, codec=Lenient())
        if follow:
            _follow(watch, wanted, count=count, after=after, as_json=as_json)
        else:
            _show(watch, wanted, count=count, after=after, as_json=as_json)


def _filter(
    settings: Settings, *, stream: str | None, types: Sequence[str], tenant: str | None, all_tenants: bool
) -> Filter:
    if tenant is not None and all_tenants:
        raise RuleBroken("--tenant and --all-tenants exclude each other: leave one of them out")
    for each in types:
        _refuse_unknown(each)
    return Filter(
        tenant=None if all_tenants else checked_id("tenant", settings.tenant if tenant is None else tenant),
        stream=None if stream is None else checked_id("stream", stream),
        types=types,
    )


def _refuse_unknown(type_: str) -> None:
    known = [each.name for each in EVENT_TYPES]
    if type_ not in known:
        close = difflib.get_close_matches(type_, known, n=1)
        advice = f"did you mean {close[0]}?" if close else f"the types are {', '.join(known)}"
        raise RuleBroken(f"there is no event type {type_!r}: {advice}")


def _show(watch: Watch, wanted: Filter, *, count: int, after: int | None, as_json: bool) -> None:
    found = watch.last(wanted, count=count) if after is None else watch.first(wanted, count=count, after=after)
    if as_json:
        print_json([_facts(each) for each in found])
        return
    _print(found, tenants=wanted.tenant is None)
    if after is not None and found and len(found) == count:
        console().print(f"Go on with --after {found[-1].position}", highlight=False)


def _follow(watch: Watch, wanted: Filter, *, count: int, after: int | None, as_json: bool) -> None:
    tenants = wanted.tenant is None
    try:
        for event in _from_now_on(watch, wanted, count=count, after=after):
            if as_json:
                print_json_line(_facts(event))
                continue
            sys.stdout.write(_line(_cells(event, tenants=tenants), WIDTHS) + "\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        return


def _from_now_on(watch: Watch, wanted: Filter, *, count: int, after: int | None) -> Iterator[Recorded]:
    shown = after
    while True:
        final = watch.final()
        if shown is None:
            yield from watch.last(wanted, count=count, until=final)
            shown = final
        while shown < final:
            page = watch.first(wanted, count=PAGE, after=shown, until=final)
            yield from page
            shown = page[-1].position if len(page) == PAGE else final
        time.sleep((LOOK_AGAIN_SOON if watch.waits else LOOK_AGAIN).total_seconds())


def _facts(event: Recorded) -> dict[str, Any]:
    return {
        "position": event.position,
        "id": event.id,
        "recorded_at": event.recorded_at,
        "tenant": event.stream.tenant,
        "stream": event.stream.name,
        "version": event.version,
        "type": event.type,
        "schema": event.schema,
        "subject": event.subject,
        "data": _data(event),
        "unreadable": event.event.reason if isinstance(event.event, Unreadable) else None,
        "meta": event.meta,
    }


def _data(event: Recorded) -> Mapping[str, Any]:
    if isinstance(event.event, Unknown | Unreadable):
        return event.event.data
    assert is_dataclass(event.event)
    assert not isinstance(event.event, type)
    return asdict(event.event)


def _print(events: Sequence[Recorded], *, tenants: bool) -> None:
    """A line an event, in columns; on a terminal what does not fit is cut at the end of the line, visibly."""
    out = console()
    cells = [_cells(each, tenants=tenants) for each in events]
    widths = [max(map(cell_len, column)) for column in zip(*(HEADER, *cells), strict=True)]
    for row, style in ((HEADER, "bold"), *((each, "") for each in cells)):
        line = Text(_line(row, widths), style=style)
        if out.is_terminal:
            line.truncate(out.width, overflow="ellipsis")
        out.print(line, soft_wrap=True)


def _cells(event: Recorded, *, tenants: bool) -> Cells:
    place = f"{event.stream.name}@{event.version}"
    return (
        str(event.position),
        f"{event.recorded_at:%m-%d %H:%M:%S}",
        f"{event.stream.tenant}/{place}" if tenants else place,
        event.type,
        _short(event),
    )


def _line(cells: Cells, widths: Sequence[int]) -> str:
    return "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _short(event: Recorded) -> str:
    """What the event says, in one line that is cut with a visible mark."""
    facts = [f"{name}={_value(value)}" for name, value in _data(event).items() if value not in (None, (), [])]
    said = " ".join((UNREADABLE, *facts) if isinstance(event.event, Unreadable) else facts)
    # Controls and line breaks in a person's words must not steer the operator's terminal.
    words = "".join(each if each.isprintable() else " " for each in said)
    return words if len(words) <= CUT else words[: CUT - 1] + "…"


def _value(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"({len(value)})"
    return str(value)
