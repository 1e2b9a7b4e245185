"""Close a session that ended otherwise, with the cause."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import session
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class CloseSessionAbnormally:
    begin: Begin

    def __call__(
        self, *, tenant: str, session_id: str, cause: session.Cause, meta: Meta | None = None
    ) -> Sequence[Recorded]:
        """Raises `NotFound`, and `SessionNotActive` where it is closed already."""
        return change_stream(
            self.begin,
            session.stream(tenant, session_id),
            fold=session.fold,
            decide=lambda state: session.close_abnormally(state, cause=cause),
            meta=meta,
        )
