"""Open a session of a user with an agent."""

from dataclasses import dataclass

from app.domain import session
from app.domain.events import Meta, Recorded
from app.use_cases.ports import Append, Begin


@dataclass(frozen=True, slots=True)
class OpenSession:
    begin: Begin

    def __call__(
        self, *, tenant: str, session_id: str, user: str, project: str, agent: str, meta: Meta | None = None
    ) -> Recorded:
        """Raises `Conflict` where the id is in use."""
        stream = session.stream(tenant, session_id)
        events = session.open_session(user=user, project=project, agent=agent)
        with self.begin() as work:
            (opened,) = work.append(Append(stream, events, "new", meta or Meta()))
        return opened
