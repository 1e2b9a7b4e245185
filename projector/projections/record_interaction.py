"""The window of events in which a session's conversation took place, once the session is closed."""

from app.domain.events import Recorded
from app.domain.session import SessionClosed, SessionClosedAbnormally
from projector import schema
from projector.changes import Change, Edge, Node, ref


def record_interaction(recorded: Recorded, event: SessionClosed | SessionClosedAbnormally) -> tuple[Change, ...]:
    """Nothing for a session in which nothing was said (G-27). The window starts at the conversation's first event
    whatever event tells of it, so a later one can only widen it."""
    if event.first is None or event.last is None:
        return ()
    tenant = recorded.stream.tenant
    session = ref("Session", tenant, id=recorded.stream.id)
    interaction = ref("Interaction", tenant, session=recorded.stream.id)
    abnormal = isinstance(event, SessionClosedAbnormally)
    return (
        Node(
            session,
            {
                "status": "closed_abnormally" if abnormal else "closed",
                "cause": event.cause.value if isinstance(event, SessionClosedAbnormally) else None,
                "closed_at": recorded.recorded_at,
            },
        ),
        Edge(schema.IN_PROJECT, session, ref("Project", tenant, id=event.project)),
        Edge(schema.OF_USER, session, ref("User", tenant, id=event.user)),
        Node(
            interaction,
            {"first_version": event.first, "last_version": event.last, "turns": event.turns},
        ),
        Edge(schema.HAS_INTERACTION, session, interaction),
    )
