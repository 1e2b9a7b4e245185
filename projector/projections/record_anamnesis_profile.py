"""What is known of a user in one competence: the last value, and nothing once it is erased."""

from typing import assert_never

from app.domain.events import Recorded
from app.domain.profile import ProfileErased, ProfileEvent, ProfileRecorded
from projector import schema
from projector.changes import Change, Edge, Gone, Node, cited, ref


def record_anamnesis_profile(recorded: Recorded, event: ProfileEvent) -> tuple[Change, ...]:
    tenant = recorded.stream.tenant
    profile = ref("Profile", tenant, user=event.user, competence=event.competence)
    match event:
        case ProfileRecorded():
            return (
                Node(
                    profile,
                    {"level": event.level, "statement": event.statement, "recorded_at": recorded.recorded_at},
                ),
                Edge(schema.HAS_PROFILE, ref("User", tenant, id=event.user), profile),
                Edge(schema.IN_COMPETENCE, profile, ref("Competence", tenant, id=event.competence)),
                *(Edge(schema.PROFILE_SUPPORTED_BY, profile, cited(tenant, each)) for each in event.evidence),
            )
        case ProfileErased():
            return (Gone(profile),)
        case _:
            assert_never(event)
