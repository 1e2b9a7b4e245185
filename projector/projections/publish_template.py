"""The versions of a template, and which one is active."""

from typing import assert_never

from app.domain.events import Recorded
from app.domain.template import TemplateActivated, TemplateEvent, TemplateVersionPublished
from projector import schema
from projector.changes import Change, Edge, Node, ref


def publish_template(recorded: Recorded, event: TemplateEvent) -> tuple[Change, ...]:
    tenant, name = recorded.stream.tenant, recorded.stream.id
    template = ref("Template", tenant, id=name)
    version = ref("TemplateVersion", tenant, template=name, number=event.number)
    match event:
        case TemplateVersionPublished():
            return (
                Node(template, {"newest": event.number}),
                Node(
                    version,
                    {
                        "body": event.body,
                        "hash": event.hash,
                        "language": event.language,
                        "published_at": recorded.recorded_at,
                    },
                ),
                Edge(schema.HAS_VERSION, template, version),
            )
        case TemplateActivated():
            return (Node(template, {"active": event.number}), Edge(schema.ACTIVE, template, version))
        case _:
            assert_never(event)
