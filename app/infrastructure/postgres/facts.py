"""What there is to know about a database before one trusts it: versions, extensions, permissions, what waits."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from app.infrastructure.postgres.engine import address, connect
from app.infrastructure.postgres.errors import translated

SERVER: Final = """
SELECT
    current_setting('server_version_num')::int / 10000,
    current_setting('server_version'),
    (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    current_user,
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
    pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool,
    to_regclass('events') IS NOT NULL AND to_regclass('outbox') IS NOT NULL AND to_regclass('projections') IS NOT NULL
"""

MAY_WRITE: Final = """
SELECT bool_and(has_table_privilege(name, privilege))
FROM (VALUES
    ('events', 'SELECT'), ('events', 'INSERT'),
    ('streams', 'SELECT'), ('streams', 'INSERT'), ('streams', 'UPDATE'),
    ('outbox', 'SELECT'), ('outbox', 'INSERT'), ('outbox', 'UPDATE'),
    ('projections', 'SELECT'), ('projections', 'UPDATE')
) AS needed (name, privilege)
"""

WORK: Final = """
SELECT
    (SELECT count(*) FROM outbox
     WHERE aggregate_type = 'graph_projection' AND processed_at IS NULL AND parked_at IS NULL),
    (SELECT count(*) FROM outbox
     WHERE aggregate_type = 'graph_projection' AND processed_at IS NULL AND parked_at IS NOT NULL),
    extract(epoch FROM clock_timestamp() - last_attempt_at)::float8,
    outage
FROM projections WHERE name = 'graph'
"""


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """`vector_available` and `vector_installed` are versions of pgvector, None where it is not."""

    major: int
    version: str
    vector_available: str | None
    vector_installed: str | None
    user: str
    may_create: bool
    read_only: bool
    has_tables: bool


@dataclass(frozen=True, slots=True)
class WorkFacts:
    """Rows of the graph projection, and when a projector was last at work, by the database's clock."""

    pending: int
    parked: int
    seconds_since_attempt: float | None
    outage: str | None


def database_facts(url: str, *, connect_timeout: timedelta) -> DatabaseFacts:
    """Raises `LogUnavailable`, `RuleBroken` for a bad URL."""
    with connect(url, connect_timeout=connect_timeout) as connection, translated(address(url)):
        found = connection.execute(SERVER).fetchone()
    assert found is not None
    return DatabaseFacts(*found)


def may_write(url: str, *, connect_timeout: timedelta) -> bool:
    """Whether the role may write events and their outbox rows, and read them; the tables are there."""
    with connect(url, connect_timeout=connect_timeout) as connection, translated(address(url)):
        found = connection.execute(MAY_WRITE).fetchone()
    return found == (True,)


def work_facts(url: str, *, connect_timeout: timedelta) -> WorkFacts:
    """The tables are there. Raises `LogUnavailable`."""
    with connect(url, connect_timeout=connect_timeout) as connection, translated(address(url)):
        found = connection.execute(WORK).fetchone()
    assert found is not None, "the row of the projection is written by the first migration"
    return WorkFacts(*found)
