"""How the projection is doing, and whether that is well."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

from app.infrastructure.postgres.engine import address, connect
from app.infrastructure.postgres.errors import translated
from app.infrastructure.postgres.parked import PARKED_ROWS
from app.use_cases.ports import ParkedRow

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


PARKED: Final = f"{PARKED_ROWS} ORDER BY coalesce(o.behind, o.id), o.id"


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


@dataclass(frozen=True, slots=True)
class Outlook:
    """A look at the projection from outside, by whoever asks; every method raises `LogUnavailable`.

    It connects anew each time: what is asked for every few seconds must not depend on what it asks about.
    """

    database_url: str = field(repr=False)
    connect_timeout: timedelta

    def status(self) -> Status:
        (found,) = self._ask(STATUS)
        return Status(*found)

    def parked(self) -> Sequence[ParkedRow]:
        """Each parked row, followed by those that wait behind it."""
        return [ParkedRow(*found) for found in self._ask(PARKED)]

    def _ask(self, question: LiteralString) -> Sequence[tuple[Any, ...]]:
        where = address(self.database_url)
        with translated(where), connect(self.database_url, connect_timeout=self.connect_timeout) as connection:
            return connection.execute(question).fetchall()


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
    if status.replay_started_at is not None:
        # While somebody is at it all is well, and whoever restarts on complaints would make it start over for ever.
        if status.holder is None:
            found.append(
                f"a replay is unfinished since {status.replay_started_at:%Y-%m-%d %H:%M:%S} UTC and nobody is at it: "
                "the next projector to run finishes it"
            )
    elif status.outage is None and (status.oldest_pending_seconds or 0) > limit:
        found.append(f"the oldest pending row has waited for {status.oldest_pending_seconds:.0f} s")
    return found
