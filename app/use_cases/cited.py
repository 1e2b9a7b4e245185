"""Which of the cited events really support a claim about a session (G-26)."""

from collections.abc import Sequence
from uuid import UUID

from app.domain.events import Evidence, Stream
from app.use_cases.ports import UnitOfWork


def supporting(work: UnitOfWork, session: Stream, cited: Sequence[UUID]) -> tuple[Evidence, ...]:
    """Those of `cited` that exist and belong to `session`, in their order; the others are left out."""
    found = work.find(cited)
    return tuple(
        Evidence(event_id=each, session=session.id, version=found[each].version)
        for each in dict.fromkeys(cited)
        if each in found and found[each].stream == session
    )
