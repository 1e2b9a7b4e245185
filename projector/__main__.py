"""`python -m projector`: the projector, and nothing else of Retold, as a process."""

import typer

from app.cli.exit import answer, guarded
from projector.cli import run

NAME = "python -m projector"


def _run() -> None:
    program = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    program.command(epilog=f"Example: {NAME}")(run)
    answer(program, NAME)


if __name__ == "__main__":
    guarded(_run)
