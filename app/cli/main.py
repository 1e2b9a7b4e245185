"""The command `retold`: its own commands, and those that other packages bring along."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated, Final, NoReturn

import typer

from app.cli.demo import demo
from app.cli.doctor import doctor
from app.cli.events import events
from app.cli.exit import answer, guarded
from app.cli.migrate import migrate
from app.cli.seed import seed
from app.cli.up import up
from app.domain.errors import RetoldError

GROUP: Final = "retold.commands"
"""The entry points of this group are typer apps, each mounted under its name."""

COMMANDS: Final = (
    (up, "retold up --no-seed"),
    (demo, "retold demo"),
    (doctor, "retold doctor --json"),
    (migrate, "retold migrate --check"),
    (seed, "retold seed --dry-run"),
    (events, "retold events --follow --type session.closed"),
)


def run() -> NoReturn:
    """The console script."""
    guarded(lambda: answer(command_line(), "retold"))


def command_line() -> typer.Typer:
    """All commands. A package whose commands cannot be loaded keeps nobody from using the others."""
    app = typer.Typer(
        name="retold",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        no_args_is_help=True,
        callback=_root,
        epilog="Example: retold up",
    )
    for command, example in COMMANDS:
        app.command(epilog=f"Example: {example}")(command)
    for found in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        _mount(app, found)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"retold {version('retold')}\n")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """The log is the truth; everything else is retold.

    Settings are RETOLD_… variables. What goes wrong ends in one line, and an exit code: 1 a finding, 2 a wrong
    command line, 4 not found, 5 a conflict, 6 a wrong value, 7 a server that does not answer.
    """


def _mount(app: typer.Typer, found: EntryPoint) -> None:
    try:
        app.add_typer(found.load(), name=found.name)
    except Exception as error:  # whatever a foreign package does at import
        reason = f"the commands of `retold {found.name}` cannot be loaded ({error}): install Retold again"
        app.command(
            found.name,
            help=f"Not available: {reason}.",
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(_unavailable(reason))


def _unavailable(reason: str) -> Callable[[], NoReturn]:
    def refuse() -> NoReturn:
        raise RetoldError(reason)

    return refuse
