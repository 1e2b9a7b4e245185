"""Projecting pending rows, beside the same nodes and edges written by hand with the driver's own UNWIND batches."""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import neo4j

from app.domain import hypothesis, session
from app.domain.events import Evidence, Recorded, Stream
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.postgres.engine import connect
from app.use_cases.ports import Append, Begin
from benchmarks.figure import Figure, Work, compare
from projector import projections
from projector.bootstrap import Parts
from projector.fold import Graph
from projector.writer import GraphWriter

GOAL: Final = 0.7
AT_ONCE: Final = 200

AGAIN: Final = """
UPDATE outbox SET processed_at = NULL WHERE aggregate_type = 'graph_projection' AND processed_at IS NOT NULL
"""

NODES: Final = "UNWIND $rows AS row MERGE (n:{label} {{key: row.key}}) SET n += row.properties"
EDGES: Final = (
    "UNWIND $rows AS row MATCH (a:{source} {{key: row.source}}) MATCH (b:{target} {{key: row.target}}) "
    "MERGE (a)-[r:{name}]->(b) SET r.position = row.position, r.version = row.version"
)

Batch = Sequence[tuple[str, list[dict[str, Any]]]]
"""Statements with their rows, for one transaction."""


def write_events(begin: Begin, rows: int) -> list[Recorded]:
    """Sessions that hand off, are closed, and about which something is believed: `rows` events that the graph shows."""
    written: list[Recorded] = []
    for first in range(0, rows, AT_ONCE):
        with begin() as work:
            appends = [append for number in range(first, first + AT_ONCE, 4) for append in _session(number)]
            written += work.append(*appends)
    return sorted(written, key=lambda recorded: recorded.position)


def project(
    parts: Parts,
    writer: GraphWriter,
    endpoint: GraphEndpoint,
    url: str,
    events: Sequence[Recorded],
    *,
    batch_size: int,
    repetitions: int,
    on_repetition: Callable[[], None],
) -> Figure:
    """The rows are read, told, written and marked; by hand the nodes and edges are there already, and only written."""
    batches = list(_by_hand(events, batch_size))
    with (
        neo4j.GraphDatabase.driver(endpoint.url, auth=(endpoint.user, endpoint.password)) as driver,
        driver.session(database=endpoint.database) as graph,
        connect(url) as connection,
    ):

        def by_hand() -> int:
            for batch in batches:
                with graph.begin_transaction() as transaction:
                    for query, rows in batch:
                        transaction.run(query, rows=rows).consume()
            return len(events)

        def afresh() -> None:
            writer.wipe(lambda _: None)
            connection.execute(AGAIN)
            connection.execute("VACUUM outbox")

        writer.prepare()
        # The events and batches above are kept for all repetitions; collecting garbage must not look at them each time,
        # which neither a projector nor somebody's own script would have to.
        gc.collect()
        gc.freeze()
        return compare(
            f"project {len(events):,} rows",
            ours=Work(parts.projector.drain, afresh),
            by_hand=Work(by_hand, afresh),
            unit="rows/s",
            against="the same nodes and edges in the driver's own UNWIND batches",
            goal=GOAL,
            repetitions=repetitions,
            on_repetition=on_repetition,
        )


def _session(number: int) -> Iterator[Append]:
    """Four events of two streams."""
    about = f"bench-{number}"
    user, project = f"user-{number % 500}", f"project-{number % 20}"
    yield Append(
        Stream("bench", "session", about),
        (
            session.HandoffOffered(
                from_agent="assistant", to_agent="ux_designer", project=project, user=user, reason="Asks for a design."
            ),
            session.SessionClosed(user=user, project=project, turns=3, first=2, last=9),
        ),
        "any",
    )
    yield Append(
        Stream("bench", "hypothesis", about),
        (
            hypothesis.HypothesisProposed(
                session=about,
                agent="assistant",
                user=user,
                evidence=(Evidence(event_id=UUID(int=number), session=about, version=2),),
                description="Wants fewer options on one page.",
            ),
            hypothesis.HypothesisAccepted(reviewer="reviewer-1"),
        ),
        "any",
    )


def _by_hand(events: Sequence[Recorded], batch_size: int) -> Iterator[Batch]:
    for first in range(0, len(events), batch_size):
        graph = Graph()
        for each in events[first : first + batch_size]:
            graph.apply(projections.changes(each) or (), position=each.position, version=each.version)
        yield _statements(graph)


def _statements(graph: Graph) -> Batch:
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for node in graph.nodes.values():
        rows[NODES.format(label=node.ref.label)].append({"key": node.ref.key, "properties": node.stored()})
    for edge in graph.edges.values():
        query = EDGES.format(source=edge.type.source, target=edge.type.target, name=edge.type.name)
        rows[query].append(
            {
                "source": edge.source.key,
                "target": edge.target.key,
                "position": edge.position,
                "version": edge.version,
            }
        )
    return list(rows.items())
