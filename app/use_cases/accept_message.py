"""Accept a user's message durably, before any model is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import session
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class AcceptMessage:
    begin: Begin

    def __call__(
        self, *, tenant: str, session_id: str, message: str, text: str, meta: Meta | None = None
    ) -> Sequence[Recorded]:
        """Nothing, if this very message was accepted before.

        Raises `NotFound`, `SessionNotActive`, `RuleBroken`, and `Conflict` for the same id with another text.
        """
        return change_stream(
            self.begin,
            session.stream(tenant, session_id),
            fold=session.fold,
            decide=lambda state: session.accept_message(state, message=message, text=text),
            meta=meta,
        )
