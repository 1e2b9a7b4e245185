"""Give up on a parked row: never project its event, and let the rest of its stream go on."""

from dataclasses import dataclass

from app.domain import projection
from app.domain.events import Meta
from app.use_cases.ports import Append, Begin


@dataclass(frozen=True, slots=True)
class SkipParkedRow:
    begin: Begin

    def __call__(self, *, row: int, reason: str, operator: str) -> int:
        """How many rows of the stream are pending again; the reason becomes an event, so that replays skip it too.

        Raises `NotFound`, and `Conflict` for a row that waits behind another.
        """
        with self.begin() as work:
            parked = work.parked.head(row)
            events = projection.skip_row(position=parked.position, reason=reason, operator=operator)
            work.append(Append(projection.stream(parked.tenant), events, "any", Meta(actor=operator)))
            return work.parked.skip(parked)
