"""The log, its outbox, and the state of the projections; the log is append-only by triggers."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NOW = sa.text("clock_timestamp()")
MOMENT = sa.DateTime(timezone=True)

REFUSE = """
CREATE FUNCTION refuse_change_of_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        -- The one change that is allowed: erasing what is personal.
        OLD.personal := NULL;
        IF NEW IS NOT DISTINCT FROM OLD THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the log is append-only: % of events is refused', TG_OP
        USING ERRCODE = 'restrict_violation', HINT = 'Only personal may be set to null; append a new event instead.';
END
$$
"""
REFUSE_ROWS = """
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON events
FOR EACH ROW EXECUTE FUNCTION refuse_change_of_log()
"""
REFUSE_TRUNCATE = """
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_log()
"""


def upgrade() -> None:
    op.create_table(
        "streams",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "stream", name="pk_streams"),
        sa.CheckConstraint("version >= 1", name=op.f("ck_streams_version")),
        sa.CheckConstraint(
            "strpos(kind, '-') = 0 AND starts_with(stream, kind || '-')", name=op.f("ck_streams_kind")
        ),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "events",
        sa.Column("position", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("schema", sa.Integer, nullable=False),
        sa.Column("data", postgresql.JSONB, nullable=False),
        sa.Column("personal", postgresql.JSONB),
        sa.Column("subject", sa.Text),
        sa.Column("meta", postgresql.JSONB, nullable=False),
        sa.Column("recorded_at", MOMENT, nullable=False, server_default=NOW),
        sa.PrimaryKeyConstraint("position", name="pk_events"),
        sa.UniqueConstraint("id", name="uq_events_id"),
        sa.UniqueConstraint("tenant", "stream", "version", name="uq_events_tenant_stream_version"),
        sa.CheckConstraint("version >= 1", name=op.f("ck_events_version")),
        sa.CheckConstraint("schema >= 1", name=op.f("ck_events_schema")),
        sa.CheckConstraint("jsonb_typeof(data) = 'object'", name=op.f("ck_events_data")),
        sa.CheckConstraint("jsonb_typeof(personal) = 'object'", name=op.f("ck_events_personal")),
    )
    op.execute(REFUSE)
    op.execute(REFUSE_ROWS)
    op.execute(REFUSE_TRUNCATE)
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column("aggregate_type", sa.Text, nullable=False),
        sa.Column("aggregate_id", sa.Text, nullable=False),
        sa.Column("event_position", sa.BigInteger, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("processed_at", MOMENT),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("last_error", sa.Text),
        sa.Column("parked_at", MOMENT),
        sa.Column("behind", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.CheckConstraint(
            "aggregate_type IN ('session', 'task', 'graph_projection')", name=op.f("ck_outbox_aggregate_type")
        ),
        sa.CheckConstraint("attempts >= 0", name=op.f("ck_outbox_attempts")),
        sa.CheckConstraint("behind IS NULL OR parked_at IS NOT NULL", name=op.f("ck_outbox_behind")),
    )
    op.create_index(
        "ix_outbox_pending",
        "outbox",
        ["aggregate_type", "id"],
        postgresql_where=sa.text("processed_at IS NULL AND parked_at IS NULL"),
    )
    op.create_index(
        "ix_outbox_parked",
        "outbox",
        ["aggregate_type", "tenant", "aggregate_id"],
        postgresql_where=sa.text("parked_at IS NOT NULL AND processed_at IS NULL"),
    )
    op.create_table(
        "projections",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("batch_first", sa.BigInteger),
        sa.Column("batch_last", sa.BigInteger),
        sa.Column("last_attempt_at", MOMENT),
        sa.Column("last_success_at", MOMENT),
        sa.Column("outage", sa.Text),
        sa.Column("outage_since", MOMENT),
        sa.Column("head", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("replay_started_at", MOMENT),
        sa.Column("replay_horizon", sa.BigInteger),
        sa.PrimaryKeyConstraint("name", name="pk_projections"),
    )
    op.execute("INSERT INTO projections (name) VALUES ('graph')")


def downgrade() -> None:
    op.drop_table("projections")
    op.drop_table("outbox")
    op.drop_table("events")
    op.execute("DROP FUNCTION refuse_change_of_log()")
    op.drop_table("streams")
