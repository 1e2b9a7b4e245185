"""What every command shows: a table for people or JSON for programs, and bars for long work."""

import codecs
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Final, Protocol

import typer
from pydantic_core import to_json
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from app.cli.exit import complain

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

UNANSWERED: Final = 2
"""The exit code of a wrong command line."""

WIDE: Final = 120
"""Columns where standard output is no terminal, unless COLUMNS says otherwise."""


def ask(question: str) -> None:
    """Go on only after a yes; where nobody answers, the command line lacks `--yes`."""
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        # The question stands there without the end of its line.
        sys.stderr.write("\n")
        complain("nothing was done, for nobody answered: give --yes to do it without a question")
        raise typer.Exit(UNANSWERED) from None
    if not agreed:
        raise typer.Abort


def console() -> Console:
    """Standard output, as wide as it is now."""
    unknown = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=WIDE if unknown else None)


def print_json(value: object) -> None:
    """`value`, which may hold dataclasses, times (ISO 8601), durations (seconds) and ids, as JSON."""
    sys.stdout.write(_encodable(to_json(value, indent=2, timedelta_mode="float").decode()) + "\n")


def print_json_line(value: object) -> None:
    """The same in one line, at once, for a program that reads while we write."""
    sys.stdout.write(_encodable(to_json(value, timedelta_mode="float").decode()) + "\n")
    sys.stdout.flush()


def _encodable(text: str) -> str:
    """JSON is UTF-8; an output of another encoding gets what is not ASCII in JSON's own escapes."""
    if codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8":
        return text
    return re.sub(r"[^\x00-\x7f]", lambda each: json.dumps(each[0])[1:-1], text)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table; None shows as a dash."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(each) for each in row))
    console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    # Square brackets in data are not rich's markup.
    return str(value).replace("[", r"\[")


class OnProgress(Protocol):
    """Told that `done` of `total` of what `phase` names is done; `total` is None where it is not known."""

    def __call__(self, phase: str, done: int, total: int | None) -> None: ...


@contextmanager
def progress_bars() -> Iterator[OnProgress]:
    """Bars on standard error, one a phase; nothing where that is no terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars:
        tasks: dict[str, Any] = {}

        def on_progress(phase: str, done: int, total: int | None) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total)
            bars.update(tasks[phase], completed=done, total=total)

        yield on_progress
