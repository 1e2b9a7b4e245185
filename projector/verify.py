"""Is the graph exactly the log? Folds the log in memory and compares it with the graph, node by node and edge by edge.

The caller holds the lock and has drained the outbox, so nobody writes to the graph meanwhile. Writers of the log go on:
what they append now is not part of the snapshot that is compared.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.log import PostgresLog, Snapshot
from projector.batch import reason, tell
from projector.compare import Difference, compare
from projector.fold import Graph
from projector.progress import Progress, quiet, silent
from projector.reader import GraphReader
from projector.schema import EDGE_TYPES, LABELS
from projector.source import settled, total

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Untellable:
    """An event that the graph should show, and cannot: no projection of today can read it."""

    position: int
    error: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was compared up to which position of the log, and every difference.

    `parked` rows wait for an operator and are left out of the comparison, with what follows them in their streams.
    """

    horizon: int
    events: int
    nodes: int
    edges: int
    parked: int
    differences: tuple[Difference, ...]
    untellable: tuple[Untellable, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the graph is exactly what the log tells."""
        return not self.differences and not self.untellable


@dataclass(frozen=True, slots=True)
class Verify:
    """Compares the live graph with the fold of the log. Raises `GraphUnavailable`, `LogUnavailable`."""

    log: PostgresLog
    codec: Codec
    reader: GraphReader
    beat: Callable[[], None] = quiet

    def __call__(self, on_progress: Progress = silent) -> Verdict:
        started = time.perf_counter()
        on_progress = self._alive(on_progress)
        untellable: list[Untellable] = []
        with self.log.snapshot() as snapshot:
            horizon, parked = snapshot.head(), _parked(snapshot)
            expected, events = self._fold(snapshot, untellable, on_progress)
        nodes = chain.from_iterable(map(self.reader.nodes, LABELS))
        edges = chain.from_iterable(map(self.reader.edges, EDGE_TYPES))
        differences = compare(
            expected,
            _counted(nodes, "compare nodes", len(expected.nodes), on_progress),
            _counted(edges, "compare edges", len(expected.edges), on_progress),
        )
        return Verdict(
            horizon=horizon,
            events=events,
            nodes=len(expected.nodes),
            edges=len(expected.edges),
            parked=parked,
            differences=tuple(differences),
            untellable=tuple(untellable),
            seconds=time.perf_counter() - started,
        )

    def _alive(self, on_progress: Progress) -> Progress:
        """A verification may take longer than a projector may be silent."""

        def progress(phase: str, done: int, total: int | None) -> None:
            self.beat()
            on_progress(phase, done, total)

        return progress

    def _fold(self, snapshot: Snapshot, untellable: list[Untellable], on_progress: Progress) -> tuple[Graph, int]:
        graph, done, expected = Graph(), 0, total(snapshot)
        on_progress("fold the log", 0, expected)
        for done, stored in enumerate(settled(snapshot), start=1):
            try:
                told = tell(self.codec, stored.row)
            except Exception as error:  # reported as what it is: a way in which the graph is not the log
                untellable.append(Untellable(stored.position, reason(error)))
                continue
            graph.apply(told.changes, position=told.position, version=told.version)
            on_progress("fold the log", done, expected)
        return graph, done


def _counted(live: Iterable[T], phase: str, total: int, on_progress: Progress) -> Iterator[T]:
    for done, each in enumerate(live, start=1):
        on_progress(phase, done, total)
        yield each


def _parked(snapshot: Snapshot) -> int:
    found = snapshot.connection.execute(
        "SELECT count(*) FROM outbox "
        "WHERE aggregate_type = 'graph_projection' AND parked_at IS NOT NULL AND processed_at IS NULL"
    ).fetchone()
    assert found is not None
    return int(found[0])
