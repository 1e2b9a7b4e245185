"""Record what is known of a user in one competence; the last value wins."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain import profile, session
from app.domain.events import Meta, Recorded
from app.use_cases.cited import supporting
from app.use_cases.ports import Append, Begin


@dataclass(frozen=True, slots=True)
class RecordProfile:
    begin: Begin

    def __call__(
        self,
        *,
        tenant: str,
        user: str,
        competence: str,
        level: int,
        statement: str,
        session_id: str,
        evidence: Sequence[UUID] = (),
        meta: Meta | None = None,
    ) -> Recorded:
        """`evidence` are events of the session `session_id`; others are left out (G-26).

        Raises `RuleBroken` for a competence outside the catalogue or a level off the scale.
        """
        stream = profile.stream(tenant, user, competence)
        with self.begin() as work:
            events = profile.record(
                user=user,
                competence=competence,
                level=level,
                statement=statement,
                evidence=supporting(work, session.stream(tenant, session_id), evidence),
            )
            (recorded,) = work.append(Append(stream, events, "any", meta or Meta()))
        return recorded
