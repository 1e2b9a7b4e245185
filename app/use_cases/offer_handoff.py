"""Offer a session to another agent."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import session
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class OfferHandoff:
    begin: Begin

    def __call__(
        self, *, tenant: str, session_id: str, to_agent: str, reason: str, meta: Meta | None = None
    ) -> Sequence[Recorded]:
        """The version of the event identifies the offer. Raises `NotFound`, `RuleBroken`, `SessionNotActive`."""
        return change_stream(
            self.begin,
            session.stream(tenant, session_id),
            fold=session.fold,
            decide=lambda state: session.offer_handoff(state, to_agent=to_agent, reason=reason),
            meta=meta,
        )
