"""Propose a hypothesis about a session, with the events that support it."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain import hypothesis, session
from app.domain.errors import NotFound
from app.domain.events import Meta, Recorded, events_of
from app.use_cases.cited import supporting
from app.use_cases.ports import Append, Begin


@dataclass(frozen=True, slots=True)
class ProposeHypothesis:
    begin: Begin

    def __call__(
        self,
        *,
        tenant: str,
        hypothesis_id: str,
        session_id: str,
        agent: str,
        description: str,
        evidence: Sequence[UUID] = (),
        meta: Meta | None = None,
    ) -> Recorded:
        """Evidence that does not exist or belongs to another session is left out (G-26). A session may be closed.

        Raises `NotFound` for an unknown session, `Conflict` where the id is in use, `RuleBroken`.
        """
        about = session.stream(tenant, session_id)
        stream = hypothesis.stream(tenant, hypothesis_id)
        with self.begin() as work:
            history = work.read(about)
            if not history:
                raise NotFound(
                    f"tenant {tenant!r} has no session {session_id!r}; a hypothesis is about one that exists"
                )
            events = hypothesis.propose(
                session=session_id,
                agent=agent,
                user=session.fold(events_of(history)).user,
                description=description,
                evidence=supporting(work, about, evidence),
            )
            (proposed,) = work.append(Append(stream, events, "new", meta or Meta()))
        return proposed
