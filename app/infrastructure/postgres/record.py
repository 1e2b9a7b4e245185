"""A row of `events` as the domain sees it."""

from functools import lru_cache
from typing import Any, Final

from pydantic import TypeAdapter

from app.domain.events import Meta, Recorded, Stream
from app.infrastructure.postgres.codec import Codec

COLUMNS: Final = (
    "position, id, tenant, stream, version, type, schema, data::text, personal::text, subject, meta::text, recorded_at"
)
"""What `recorded` takes, in this order; JSON comes as text, for the codec parses it."""

_META: Final = TypeAdapter(Meta)


def recorded(codec: Codec, row: tuple[Any, ...]) -> Recorded:
    """Raises `RuleBroken` where the event cannot be read."""
    position, id_, tenant, name, version, type_, schema, data, personal, subject, meta, recorded_at = row
    return Recorded(
        position=position,
        id=id_,
        stream=stream_named(tenant, name),
        version=version,
        type=type_,
        schema=schema,
        event=codec.decode(type_, schema, data, personal),
        subject=subject,
        meta=_meta(meta),
        recorded_at=recorded_at,
    )


@lru_cache(maxsize=1024)
def _meta(text: str) -> Meta:
    return _META.validate_json(text)


@lru_cache(maxsize=1024)
def stream_named(tenant: str, name: str) -> Stream:
    """The stream that is stored as `name`; a kind has no dash."""
    kind, _, id_ = name.partition("-")
    return Stream(tenant, kind, id_)


def meta_facts(meta: Meta) -> dict[str, Any]:
    """What is known, and nothing else."""
    facts: dict[str, Any] = _META.dump_python(meta, mode="json", exclude_none=True)
    return facts
