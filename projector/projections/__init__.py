"""Pure functions from events to changes: they know no driver, no database and not each other."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.domain import hypothesis, profile, session, template
from app.domain.events import Recorded
from projector.changes import Change
from projector.projections.publish_template import publish_template
from projector.projections.record_anamnesis_profile import record_anamnesis_profile
from projector.projections.record_handoff import record_handoff
from projector.projections.record_hypothesis import record_hypothesis
from projector.projections.record_interaction import record_interaction

Projection = Callable[[Recorded, Any], tuple[Change, ...]]

PROJECTIONS: Final[Mapping[type, Projection]] = {
    session.HandoffOffered: record_handoff,
    session.SessionClosed: record_interaction,
    session.SessionClosedAbnormally: record_interaction,
    hypothesis.HypothesisProposed: record_hypothesis,
    hypothesis.HypothesisAccepted: record_hypothesis,
    hypothesis.HypothesisDismissed: record_hypothesis,
    profile.ProfileRecorded: record_anamnesis_profile,
    profile.ProfileErased: record_anamnesis_profile,
    template.TemplateVersionPublished: publish_template,
    template.TemplateActivated: publish_template,
}
"""Which projection shows which event; what is not here is not part of the graph."""


def changes(recorded: Recorded) -> tuple[Change, ...] | None:
    """What the event changes in the graph; None where no projection shows events of its type."""
    projection = PROJECTIONS.get(type(recorded.event))
    return None if projection is None else projection(recorded, recorded.event)
