"""The tables of the log, as Alembic compares them with the database; every constraint has a name."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

AGGREGATE_TYPES: Final = ("session", "task", "graph_projection")
"""Who may be told of an event: each of these types of outbox rows is drained by exactly one consumer."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

NOW = text("clock_timestamp()")
Moment = DateTime(timezone=True)

streams = Table(
    "streams",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("stream", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    CheckConstraint("version >= 1", name="version"),
    CheckConstraint("strpos(kind, '-') = 0 AND starts_with(stream, kind || '-')", name="kind"),
    # Every append updates the row in place: room on the page keeps such an update out of the index.
    postgresql_with={"fillfactor": 70},
)

# Reading by tenant or type walks the primary key and filters: all readers want the order of positions and nearly all of
# the log, or its end. An index for it would be paid by every append.
events = Table(
    "events",
    metadata,
    Column("position", BigInteger, Identity(always=True), primary_key=True),
    Column("id", Uuid, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("data", JSONB, nullable=False),
    Column("personal", JSONB),
    Column("subject", Text),
    Column("meta", JSONB, nullable=False),
    Column("recorded_at", Moment, nullable=False, server_default=NOW),
    UniqueConstraint("id"),
    UniqueConstraint("tenant", "stream", "version"),
    CheckConstraint("version >= 1", name="version"),
    CheckConstraint("schema >= 1", name="schema"),
    CheckConstraint("jsonb_typeof(data) = 'object'", name="data"),
    # SQL's null means erased; JSON's null would be a second way to say nothing.
    CheckConstraint("jsonb_typeof(personal) = 'object'", name="personal"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("aggregate_type", Text, nullable=False),
    Column("aggregate_id", Text, nullable=False),
    # No foreign key: a row outlives its event, and says so when it is handled.
    Column("event_position", BigInteger, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("created_at", Moment, nullable=False, server_default=NOW),
    Column("processed_at", Moment),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("last_error", Text),
    Column("parked_at", Moment),
    # The parked row of the same stream that this one waits for; null in that row itself.
    Column("behind", BigInteger),
    CheckConstraint(f"aggregate_type IN {AGGREGATE_TYPES}", name="aggregate_type"),
    CheckConstraint("attempts >= 0", name="attempts"),
    CheckConstraint("behind IS NULL OR parked_at IS NOT NULL", name="behind"),
    Index(
        "ix_outbox_pending",
        "aggregate_type",
        "id",
        postgresql_where=text("processed_at IS NULL AND parked_at IS NULL"),
    ),
    Index(
        "ix_outbox_parked",
        "aggregate_type",
        "tenant",
        "aggregate_id",
        postgresql_where=text("parked_at IS NOT NULL AND processed_at IS NULL"),
    ),
)

projections = Table(
    "projections",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text),
    # The batch in hand, by outbox id; not null after a crash.
    Column("batch_first", BigInteger),
    Column("batch_last", BigInteger),
    Column("last_attempt_at", Moment),
    Column("last_success_at", Moment),
    Column("outage", Text),
    Column("outage_since", Moment),
    # The highest position applied.
    Column("head", BigInteger, nullable=False, server_default=text("0")),
    # Not null while a replay is unfinished.
    Column("replay_started_at", Moment),
    Column("replay_horizon", BigInteger),
)
