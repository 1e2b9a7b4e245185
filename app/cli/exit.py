"""How a command ends when something is wrong: one line on standard error, and a code that tells what can be done."""

import sys
from collections.abc import Callable
from typing import Final, NoReturn

from rich.console import Console
from rich.text import Text

from app.domain.errors import Conflict, NotFound, RetoldError, RuleBroken, Unavailable

EXIT_CODES: Final[tuple[tuple[type[RetoldError], int], ...]] = (
    (NotFound, 4),
    (Conflict, 5),
    (RuleBroken, 6),
    (Unavailable, 7),
)
"""The table of this door. 1 is a finding, such as drift; 2 is a wrong command line; 130 is Ctrl-C."""


def exit_code(error: RetoldError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)


def guarded(command: Callable[[], object]) -> NoReturn:
    """Run a command line to its end; what a user or an operator can act on ends in one line, without a stack trace."""
    try:
        command()
    except RetoldError as error:
        complain(str(error))
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def complain(message: str) -> None:
    """One line, whatever the message holds."""
    line = Text("error: ", style="bold red") + Text(" ".join(message.split()), style="default")
    Console(stderr=True, soft_wrap=True).print(line)
