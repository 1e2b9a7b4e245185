"""How long work tells whoever watches that it goes on, how far it has come, and that it was told to stop."""

from typing import Protocol


class Progress(Protocol):
    """Told that `done` of `total` of what `phase` names is done; `total` is None where it is not known."""

    def __call__(self, phase: str, done: int, total: int | None) -> None: ...


def silent(phase: str, done: int, total: int | None) -> None:
    """For those who do not watch."""


class Stopped(Exception):
    """The process was asked to end in the middle of its work."""


def quiet() -> None:
    """For those who need no sign of life."""
