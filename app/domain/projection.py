"""What an operator decides about the graph projection; it is part of the log, so that a replay decides the same."""

from dataclasses import dataclass

from app.domain.events import Stream
from app.domain.text import checked_id, checked_words


@dataclass(frozen=True, slots=True)
class RowSkipped:
    """The event at `position` is not to be projected, now or in any replay."""

    position: int
    reason: str
    operator: str


def stream(tenant: str) -> Stream:
    return Stream(checked_id("tenant", tenant), "projection", "graph")


def skip_row(*, position: int, reason: str, operator: str) -> tuple[RowSkipped, ...]:
    return (
        RowSkipped(
            position=position, reason=checked_words("reason", reason), operator=checked_id("operator", operator)
        ),
    )
