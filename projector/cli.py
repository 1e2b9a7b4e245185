"""The projector's commands: the process itself, and what an operator does about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Final

import typer

from app.bootstrap import Retold, retold
from app.cli.exit import complain
from app.cli.output import AsJson, OnProgress, Yes, ask, console, print_json, print_table, progress_bars
from app.domain import projection
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.servers import resolve, resolve_database
from app.infrastructure.logging import configure_logging
from app.settings import Settings, load_settings
from app.use_cases.ports import ParkedRow
from projector.bootstrap import Parts, assemble
from projector.compare import Difference
from projector.replay import Replayed
from projector.serve import serve
from projector.status import Outlook, Status, complaints
from projector.verify import Verdict

YIELDS_WITHIN: Final = timedelta(seconds=60)
"""How long a replay or a verification waits for the live projector to end its cycle and yield."""

SHOWN: Final = 50
"""Differences in the table; `--json` has them all."""

DRIFT: Final = 1
INTERRUPTED: Final = 130

commands = typer.Typer(no_args_is_help=True, help="The graph projection: run it, look at it, rebuild it, prove it.")
parked = typer.Typer(no_args_is_help=True, help="Rows that were set aside because they failed again and again.")
commands.add_typer(parked, name="parked")


@commands.command(epilog="Example: retold projector run")
def run() -> None:
    """Project until Ctrl-C or SIGTERM, with /health and /metrics on RETOLD_PROJECTOR_PORT."""
    settings = load_settings()
    configure_logging(settings)
    serve(resolve(settings), settings)


@commands.command(epilog="Example: retold projector once --json")
def once(as_json: AsJson = False) -> None:
    """Project what is pending now, then end; the projector that holds the graph yields meanwhile."""
    with _exclusively() as parts:
        marked = parts.projector.drain()
    if as_json:
        print_json({"projected": marked})
    else:
        console().print(f"{marked:,} rows projected")


@commands.command(epilog="Example: retold projector status --json")
def status(as_json: AsJson = False) -> None:
    """How the projection is doing; exit code 1 if something is wrong with it."""
    settings = load_settings()
    found = _outlook(settings).status()
    wrong = complaints(found, stuck_after=settings.stuck_after)
    if as_json:
        print_json({**asdict(found), "complaints": wrong})
    else:
        _show_status(found)
        for complaint in wrong:
            console().print(f"[red]✗[/red] {complaint}", highlight=False)
    raise typer.Exit(DRIFT if wrong else 0)


@commands.command(epilog="Example: retold projector replay --yes")
def replay(yes: Yes = False, as_json: AsJson = False) -> None:
    """Wipe the projection and tell it again from the log; the log itself is only read."""
    if not yes:
        ask("This wipes the graph projection and rebuilds it from the log. Go on?")
    try:
        with _exclusively() as parts, progress_bars() as on_progress:
            done = _replayed(parts, on_progress)
            parts.projector.drain()
    except _HalfTold:
        complain(
            "the replay was interrupted and the graph is told in part; the projector finishes it, running or at its "
            "next start, or run `retold projector replay` again"
        )
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(done)
    else:
        _show_replayed(done)


@commands.command(epilog="Example: retold projector verify --json")
def verify(as_json: AsJson = False) -> None:
    """Compare the graph with the log, node by node and edge by edge; exit code 1 if they differ."""
    with _exclusively() as parts, progress_bars() as on_progress:
        parts.projector.drain()
        verdict = parts.verify(on_progress)
    if as_json:
        print_json({**asdict(verdict), "holds": verdict.holds})
    else:
        _show_verdict(verdict)
    raise typer.Exit(0 if verdict.holds else DRIFT)


@parked.command("list", epilog="Example: retold projector parked list --json")
def list_(as_json: AsJson = False) -> None:
    """The rows that were set aside, and those that wait behind them in their streams."""
    rows = _outlook(load_settings()).parked()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    print_table("Parked rows", PARKED_COLUMNS, [_parked_row(row) for row in rows])
    if rows:
        console().print("Then: retold projector parked retry ROW, or skip ROW --reason …", highlight=False)


@parked.command(epilog="Example: retold projector parked retry 42")
def retry(
    row: Annotated[int, typer.Argument(help="The row, as `parked list` shows it.")], as_json: AsJson = False
) -> None:
    """Give a row, and what waits behind it, another try; its attempts start at zero."""
    with _retold() as app:
        pending = app.retry_parked_row(row=row)
    _show_released({"row": row, "pending": pending}, f"row {row} is pending again, {pending:,} rows in all", as_json)


@parked.command(epilog='Example: retold projector parked skip 42 --reason "written by a bug" --operator on-call')
def skip(
    row: Annotated[int, typer.Argument(help="The row, as `parked list` shows it.")],
    reason: Annotated[str, typer.Option(help="Why the graph is never to show this event; it is recorded.")],
    operator: Annotated[str, typer.Option(help="Who decides.", envvar="USER")] = "operator",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Never project the event of a row, in no replay either; what waits behind it goes on."""
    with _retold() as app:
        if not yes:
            _refuse_unskippable(app, row=row, reason=reason, operator=operator)
            ask(f"The graph will never show the event of row {row}. Go on?")
        pending = app.skip_parked_row(row=row, reason=reason, operator=operator)
    _show_released({"row": row, "pending": pending}, f"row {row} is skipped, {pending:,} rows go on", as_json)


class _HalfTold(Exception):
    """Ctrl-C came between the beginning of a replay and its end."""


def _replayed(parts: Parts, on_progress: OnProgress) -> Replayed:
    try:
        return parts.replay(on_progress)
    except KeyboardInterrupt:
        raise _HalfTold from None


def _refuse_unskippable(app: Retold, *, row: int, reason: str, operator: str) -> None:
    """Raises what skipping would raise: nobody is to be asked about what cannot be done."""
    with app.skip_parked_row.begin() as work:
        projection.skip_row(position=work.parked.head(row).position, reason=reason, operator=operator)


def _outlook(settings: Settings) -> Outlook:
    return Outlook(resolve_database(settings, Home(settings.home)), settings.database_connect_timeout)


@contextmanager
def _retold() -> Iterator[Retold]:
    settings = load_settings()
    with retold(resolve_database(settings, Home(settings.home)), settings) as app:
        yield app


@contextmanager
def _exclusively() -> Iterator[Parts]:
    settings = load_settings()
    configure_logging(settings, at_least="warning")
    with assemble(resolve(settings), settings) as parts, parts.projector.exclusively(YIELDS_WITHIN):
        yield parts


def _show_status(found: Status) -> None:
    behind = found.log_head - found.head
    print_table(
        "Graph projection",
        ("figure", "value"),
        (
            ("pending rows", found.pending),
            ("oldest pending, seconds", found.oldest_pending_seconds),
            ("parked rows", found.parked),
            ("head position", f"{found.head} (the log's is {found.log_head})" if behind else found.head),
            ("last success", found.last_success_at),
            ("last attempt", found.last_attempt_at),
            ("projector", found.holder),
            ("outage", found.outage),
        ),
    )


def _show_replayed(done: Replayed) -> None:
    print_table(
        "Replayed",
        ("figure", "value"),
        (
            ("up to position", done.horizon),
            ("nodes wiped", done.wiped),
            ("events told", done.events),
            ("streams parked", done.parked),
            ("seconds", done.seconds),
        ),
    )


def _show_verdict(verdict: Verdict) -> None:
    if verdict.differences:
        print_table(
            f"{len(verdict.differences):,} differences",
            ("what", "kind", "type", "key", "target", "property", "the log says", "the graph has"),
            [_difference_row(each) for each in verdict.differences[:SHOWN]],
        )
    if verdict.untellable:
        rows = [(each.position, each.error) for each in verdict.untellable[:SHOWN]]
        print_table("Events that cannot be told", ("position", "error"), rows)
    said = "[green]✓[/green] the graph is exactly the log" if verdict.holds else "[red]✗[/red] the graph is not the log"
    console().print(
        f"{said}, up to position {verdict.horizon:,}: {verdict.events:,} events, {verdict.nodes:,} nodes, "
        f"{verdict.edges:,} edges, in {verdict.seconds:.1f} s",
        highlight=False,
    )
    if verdict.parked:
        console().print(f"{verdict.parked:,} parked rows are left out: see `retold projector parked list`")
    if not verdict.holds:
        console().print("To mend it: retold projector replay")


def _difference_row(each: Difference) -> tuple[object, ...]:
    return (each.what, each.kind, each.type, each.key, each.target, each.property, each.expected, each.actual)


PARKED_COLUMNS: Final = ("row", "tenant", "stream", "position", "type", "attempts", "parked at", "behind", "error")


def _parked_row(row: ParkedRow) -> tuple[object, ...]:
    return (
        row.id,
        row.tenant,
        row.stream,
        row.position,
        row.type,
        row.attempts,
        row.parked_at,
        row.behind,
        row.error or None,
    )


def _show_released(released: dict[str, int], sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(released)
    else:
        console().print(sentence)
