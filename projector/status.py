"""How the projection is doing, and whether that is well."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg

STATUS: Final = """
SELECT
    (SELECT count(*) FROM outbox AS o
     WHERE o.aggregate_type = 'graph_projection' AND o.processed_at IS NULL AND o.parked_at IS NULL),
    (SELECT extract(epoch FROM clock_timestamp() - min(o.created_at))::float8 FROM outbox AS o
     WHERE o.aggregate_type = 'graph_projection' AND o.processed_at IS NULL AND o.parked_at IS NULL),
    (SELECT count(*) FROM outbox AS o
     WHERE o.aggregate_type = 'graph_projection' AND o.processed_at IS NULL AND o.parked_at IS NOT NULL),
    p.head,
    (SELECT coalesce(max(position), 0) FROM events),
    p.holder,
    p.last_attempt_at,
    p.last_success_at,
    extract(epoch FROM clock_timestamp() - p.last_attempt_at)::float8,
    p.outage,
    p.outage_since,
    p.replay_started_at
FROM projections AS p
WHERE p.name = 'graph'
"""


@dataclass(frozen=True, slots=True)
class Status:
    """Figures of the projection; ages are seconds by the database's clock, positions those of the log."""

    pending: int
    oldest_pending_seconds: float | None
    parked: int
    head: int
    log_head: int
    holder: str | None
    last_attempt_at: datetime | None
    last_success_at: datetime | None
    seconds_since_attempt: float | None
    outage: str | None
    outage_since: datetime | None
    replay_started_at: datetime | None


def read_status(connection: psycopg.Connection[tuple[Any, ...]]) -> Status:
    found = connection.execute(STATUS).fetchone()
    assert found is not None, "the row of the projection is written by the first migration"
    return Status(*found)


def complaints(status: Status, *, stuck_after: timedelta) -> Sequence[str]:
    """What is wrong, a sentence each; nothing if all is well. Parked rows wait for an operator and are no illness."""
    limit = stuck_after.total_seconds()
    found = []
    if status.seconds_since_attempt is None:
        found.append("no projector has run yet: start one with `retold projector run`")
    elif status.seconds_since_attempt > limit:
        found.append(
            f"no projector has made a cycle for {status.seconds_since_attempt:.0f} s "
            f"(last: {status.holder or 'one that has stopped'}): it is dead or stuck; start it again"
        )
    if status.outage is not None:
        found.append(f"the graph is unavailable since {status.outage_since:%Y-%m-%d %H:%M:%S} UTC: {status.outage}")
    elif (status.oldest_pending_seconds or 0) > limit:
        found.append(f"the oldest pending row has waited for {status.oldest_pending_seconds:.0f} s")
    if status.replay_started_at is not None:
        found.append(
            f"a replay is unfinished since {status.replay_started_at:%Y-%m-%d %H:%M:%S} UTC: "
            "the next projector to run finishes it"
        )
    return found
