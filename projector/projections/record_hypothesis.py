"""What an agent believes about a session, and which events support it."""

from typing import assert_never

from app.domain.events import Recorded
from app.domain.hypothesis import HypothesisAccepted, HypothesisDismissed, HypothesisEvent, HypothesisProposed, Status
from projector import schema
from projector.changes import Change, Edge, Node, cited, ref


def record_hypothesis(recorded: Recorded, event: HypothesisEvent) -> tuple[Change, ...]:
    hypothesis = ref("Hypothesis", recorded.stream.tenant, id=recorded.stream.id)
    match event:
        case HypothesisProposed():
            return _proposed(recorded, event)
        case HypothesisAccepted():
            return (Node(hypothesis, {"status": Status.ACCEPTED.value, "reviewer": event.reviewer}),)
        case HypothesisDismissed():
            return (
                Node(
                    hypothesis,
                    {"status": Status.DISMISSED.value, "reviewer": event.reviewer, "dismissed_for": event.reason},
                ),
            )
        case _:
            assert_never(event)


def _proposed(recorded: Recorded, event: HypothesisProposed) -> tuple[Change, ...]:
    """Evidence of another session is left out; without any the hypothesis is still there (G-26)."""
    tenant = recorded.stream.tenant
    hypothesis = ref("Hypothesis", tenant, id=recorded.stream.id)
    return (
        Node(
            hypothesis,
            {
                "status": Status.PROPOSED.value,
                "description": event.description,
                "proposed_at": recorded.recorded_at,
            },
        ),
        Edge(schema.ABOUT_SESSION, hypothesis, ref("Session", tenant, id=event.session)),
        Edge(schema.TARGETS, hypothesis, ref("Agent", tenant, id=event.agent)),
        *(
            Edge(schema.HYPOTHESIS_SUPPORTED_BY, hypothesis, cited(tenant, each))
            for each in event.evidence
            if each.session == event.session
        ),
    )
