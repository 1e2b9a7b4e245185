"""Dismiss a hypothesis after review, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import hypothesis
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class DismissHypothesis:
    begin: Begin

    def __call__(
        self, *, tenant: str, hypothesis_id: str, reviewer: str, reason: str, meta: Meta | None = None
    ) -> Sequence[Recorded]:
        """Raises `NotFound`, and `Conflict` where it was decided before."""
        return change_stream(
            self.begin,
            hypothesis.stream(tenant, hypothesis_id),
            fold=hypothesis.fold,
            decide=lambda state: hypothesis.dismiss(state, reviewer=reviewer, reason=reason),
            meta=meta,
        )
