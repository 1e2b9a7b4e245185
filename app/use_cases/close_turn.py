"""Close a turn: the question and its answer enter the log together."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import session
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class CloseTurn:
    begin: Begin

    def __call__(
        self, *, tenant: str, session_id: str, message: str, answer: str, meta: Meta | None = None
    ) -> Sequence[Recorded]:
        """Raises `NotFound` for an unknown session or message, `Conflict` for a closed turn, `SessionNotActive`."""
        return change_stream(
            self.begin,
            session.stream(tenant, session_id),
            fold=session.fold,
            decide=lambda state: session.close_turn(state, message=message, answer=answer),
            meta=meta,
        )
