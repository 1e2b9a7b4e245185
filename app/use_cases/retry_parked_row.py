"""Give a parked row and the rest of its stream another try."""

from dataclasses import dataclass

from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class RetryParkedRow:
    begin: Begin

    def __call__(self, *, row: int) -> int:
        """How many rows are pending again. Raises `NotFound`, and `Conflict` for a row that waits behind another."""
        with self.begin() as work:
            return work.parked.retry(work.parked.head(row))
