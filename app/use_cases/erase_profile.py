"""Erase what is known of a user in one competence."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import profile
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class EraseProfile:
    begin: Begin

    def __call__(
        self, *, tenant: str, user: str, competence: str, reason: str, meta: Meta | None = None
    ) -> Sequence[Recorded]:
        """Nothing, if it is erased already. Raises `NotFound`, `RuleBroken`."""
        return change_stream(
            self.begin,
            profile.stream(tenant, user, competence),
            fold=profile.fold,
            decide=lambda state: profile.erase(state, user=user, competence=competence, reason=reason),
            meta=meta,
        )
