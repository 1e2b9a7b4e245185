"""The figures of the projector for Prometheus."""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.domain.errors import LogUnavailable
from projector.cycle import Cycle
from projector.status import Status

BATCH_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What this process did since it started, and how the projection is doing, read when somebody asks."""

    def __init__(self, read_status: Callable[[], Status]) -> None:
        self.registry = CollectorRegistry()
        name = "retold_projector"
        self._applied = Counter(
            f"{name}_applied_rows", "Rows of the outbox that were projected", registry=self.registry
        )
        self._failed = Counter(f"{name}_failed_rows", "Attempts at a row that failed", registry=self.registry)
        self._outages = Counter(f"{name}_outages", "Cycles cut short by an outage", registry=self.registry)
        self._seconds = Histogram(
            f"{name}_batch_seconds", "Time a batch took", buckets=BATCH_SECONDS, registry=self.registry
        )
        self.registry.register(_StatusCollector(read_status))

    def observe(self, cycle: Cycle) -> None:
        self._applied.inc(cycle.marked)
        self._failed.inc(cycle.failed)
        self._outages.inc(cycle.outage is not None)
        if cycle.taken:
            self._seconds.observe(cycle.seconds)


class _StatusCollector(Collector):
    def __init__(self, read_status: Callable[[], Status]) -> None:
        self._read_status = read_status

    def describe(self) -> Iterator[Metric]:
        """Nothing, so that registering does not ask the database."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        try:
            status = self._read_status()
        except LogUnavailable:
            yield _gauge("retold_projector_log_up", "1 if PostgreSQL answers", 0)
            return
        yield _gauge("retold_projector_log_up", "1 if PostgreSQL answers", 1)
        yield _gauge("retold_projector_graph_up", "0 while an outage of the graph is noted", status.outage is None)
        yield _gauge("retold_projector_pending_rows", "Rows that wait to be projected", status.pending)
        yield _gauge(
            "retold_projector_oldest_pending_seconds", "Age of the oldest of them", status.oldest_pending_seconds or 0
        )
        yield _gauge("retold_projector_parked_rows", "Rows that wait for an operator", status.parked)
        yield _gauge("retold_projector_head_position", "Highest position of the log in the graph", status.head)
        yield _gauge("retold_log_head_position", "Highest position of the log", status.log_head)


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=float(value))
