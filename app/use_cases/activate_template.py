"""Make one published version of a template the active one."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain import template
from app.domain.events import Meta, Recorded
from app.use_cases.change_stream import change_stream
from app.use_cases.ports import Begin


@dataclass(frozen=True, slots=True)
class ActivateTemplate:
    begin: Begin

    def __call__(self, *, tenant: str, name: str, number: int, meta: Meta | None = None) -> Sequence[Recorded]:
        """Nothing, if it is active already. Raises `NotFound` for an unknown template or version."""
        return change_stream(
            self.begin,
            template.stream(tenant, name),
            fold=template.fold,
            decide=lambda state: template.activate(state, number=number),
            meta=meta,
        )
