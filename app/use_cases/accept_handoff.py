"""Accept an offered handoff: the session goes to the other agent."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import session
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class AcceptHandoff:
    begin: Begin

    def __call__(
        self, *, tenant: str, session_id: str, offer: int, agent: str, meta: Meta | None = None
    ) -> Sequence[Recorded]:
        """Raises `NotFound` for an unknown session or offer, `RuleBroken` for another agent, `SessionNotActive`."""
        return change_stream(
            self.begin,
            session.stream(tenant, session_id),
            fold=session.fold,
            decide=lambda state: session.accept_handoff(state, offer=offer, agent=agent),
            meta=meta,
        )
