"""Publish a version of a template, as an event: a lost graph gets its templates back from the log."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import template
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class PublishTemplate:
    begin: Begin

    def __call__(
        self, *, tenant: str, name: str, language: str, body: str, meta: Meta | None = None
    ) -> Sequence[Recorded]:
        """Nothing, if the newest version has this very body. Raises `RuleBroken`."""
        return change_stream(
            self.begin,
            template.stream(tenant, name),
            fold=template.fold,
            decide=lambda state: template.publish(state, language=language, body=body),
            meta=meta,
            may_be_new=True,
        )
