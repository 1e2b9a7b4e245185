"""A row of `events` as the domain sees it."""

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
        meta=_META.validate_json(meta),
        recorded_at=recorded_at,
    )


def stream_named(tenant: str, name: str) -> Stream:
    """The stream that is stored as `name`; a kind has no dash."""
    kind, _, id_ = name.partition("-")
    return Stream(tenant, kind, id_)


def meta_json(meta: Meta) -> str:
    """What is known, and nothing else."""
    return _META.dump_json(meta, exclude_none=True).decode()
