"""Who handed a session to whom, and why."""

from app.domain.events import Recorded
from app.domain.session import HandoffOffered
from projector import schema
from projector.changes import Change, Edge, Node, ref


def record_handoff(recorded: Recorded, event: HandoffOffered) -> tuple[Change, ...]:
    """A handoff is told apart by its session and the version of the offer."""
    tenant = recorded.stream.tenant
    session = ref("Session", tenant, id=recorded.stream.id)
    handoff = ref("Handoff", tenant, session=recorded.stream.id, offer=recorded.version)
    return (
        Node(session, {"status": "open"}),
        Edge(schema.IN_PROJECT, session, ref("Project", tenant, id=event.project)),
        Edge(schema.OF_USER, session, ref("User", tenant, id=event.user)),
        Node(handoff, {"reason": event.reason, "offered_at": recorded.recorded_at}),
        Edge(schema.HAS_HANDOFF, session, handoff),
        Edge(schema.FROM, handoff, ref("Agent", tenant, id=event.from_agent)),
        Edge(schema.TO, handoff, ref("Agent", tenant, id=event.to_agent)),
    )
