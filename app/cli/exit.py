"""How a command ends when something is wrong: one line on standard error, and a code that tells what can be done."""

import os
import sys
from collections.abc import Callable
from typing import Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from app.cli.streams import OutputLost, standard_streams
from app.domain.errors import Conflict, NotFound, RetoldError, RuleBroken, Unavailable

EXIT_CODES: Final[tuple[tuple[type[RetoldError], int], ...]] = (
    (NotFound, 4),
    (Conflict, 5),
    (RuleBroken, 6),
    (Unavailable, 7),
)
"""The table of this door. 1 is a finding, such as drift; 2 is a wrong command line; 130 is Ctrl-C; two more below."""

OUTPUT_LOST: Final = os.EX_IOERR
READER_GONE: Final = 141
"""As a shell counts a program that SIGPIPE has ended."""


def exit_code(error: RetoldError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)


def guarded(command: Callable[[], object]) -> NoReturn:
    """Run a command line to its end; what a user or an operator can act on ends in one line, without a stack trace."""
    try:
        with standard_streams():
            code = _ended(command)
    except OutputLost as lost:
        if lost.reader_gone:
            sys.exit(READER_GONE)
        with standard_streams():
            complain(str(lost))
        sys.exit(OUTPUT_LOST)
    sys.exit(code)


def answer(app: typer.Typer, name: str) -> None:
    """Let `app` do what the command line says; a wrong one is refused in one line."""
    try:
        code = app(prog_name=name, standalone_mode=False)
    except typer.TyperException as error:
        _refuse(error, name)
    except typer.Abort:
        complain("nothing was done")
        sys.exit(1)
    if isinstance(code, int):
        sys.exit(code)


def complain(message: str) -> None:
    """One line, whatever the message holds."""
    line = Text("error: ", style="bold red") + Text(" ".join(message.split()), style="default")
    Console(stderr=True, soft_wrap=True).print(line)


def _ended(command: Callable[[], object]) -> str | int | None:
    try:
        command()
    except RetoldError as error:
        complain(str(error))
        return exit_code(error)
    except KeyboardInterrupt:
        return 130
    except SystemExit as ended:
        return ended.code
    return 0


def _refuse(error: typer.TyperException, name: str) -> NoReturn:
    """A wrong command line in one line; no message is a command group without a command, which has shown its help."""
    if error.format_message():
        context = getattr(error, "ctx", None)
        path = context.command_path if context else name
        complain(f"{error.format_message().rstrip('.')}; see `{path} --help`")
    sys.exit(error.exit_code)
