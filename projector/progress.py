"""How long work tells whoever watches it how far it has come."""

from typing import Protocol


class Progress(Protocol):
    """Told that `done` of `total` of what `phase` names is done; `total` is None where it is not known."""

    def __call__(self, phase: str, done: int, total: int | None) -> None: ...


def silent(phase: str, done: int, total: int | None) -> None:
    """For those who do not watch."""
