"""A projector on given servers: its parts inside the test, or the process itself, which the test may kill."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import neo4j
import psycopg

from app.bootstrap import Retold, retold
from app.domain.events import Recorded
from app.infrastructure.embedded.servers import Servers
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.postgres.codec import Codec
from app.settings import Settings, variable
from projector.bootstrap import Parts, assemble
from projector.cycle import Projector
from projector.fold import Graph
from projector.replay import Rebuild
from projector.status import Outlook
from projector.verify import Verdict
from tests.servers import PROJECT

Row = tuple[Any, ...]

QUICK: Mapping[str, Any] = {
    "poll_interval": 0.05,
    "projector_port": 0,
}
"""Settings under which a test does not wait; any of them may be given otherwise. The time limits are those of the
product: on a busy machine, a Neo4j that has just started takes seconds for its first statements."""


CUT_OFF = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
WHERE locktype = 'advisory' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@contextmanager
def projecting(
    database: str,
    graph: GraphEndpoint,
    *,
    writer: Callable[[Rebuild], Rebuild] | None = None,
    codec: Codec | None = None,
    **settings: Any,
) -> Iterator[Parts]:
    """The parts on these servers. `writer` may wrap the real one, `codec` take the place of it."""
    chosen = Settings(**{**QUICK, **settings})
    with assemble(Servers(database, graph), chosen) as parts:
        yield _rebuilt(parts, chosen, writer or _same, codec or parts.replay.codec)


def _same(writer: Rebuild) -> Rebuild:
    return writer


def _rebuilt(parts: Parts, chosen: Settings, wrap: Callable[[Rebuild], Rebuild], codec: Codec) -> Parts:
    wrapped = wrap(parts.replay.writer)
    replay = replace(parts.replay, writer=wrapped, codec=codec)
    projector = Projector(
        parts.outbox, wrapped, codec, replay, batch_size=chosen.batch_size, max_attempts=chosen.max_attempts
    )
    return replace(parts, projector=projector, replay=replay, verify=replace(parts.verify, codec=codec))


class Interfering:
    """The real writer, and something else that happens right before or after it writes a batch."""

    def __init__(
        self,
        writer: Rebuild,
        before: Callable[[Graph], None] = lambda batch: None,
        after: Callable[[Graph], None] = lambda batch: None,
    ) -> None:
        self._writer, self._before, self._after = writer, before, after
        self.ping, self.prepare, self.wipe = writer.ping, writer.prepare, writer.wipe

    def write(self, batch: Graph) -> None:
        self._before(batch)
        self._writer.write(batch)
        self._after(batch)


def told_of(batch: Graph, session: str) -> bool:
    """Whether a batch says something about this session, of whatever tenant."""
    return any(label == "Session" and node.ref.identity["id"] == session for (label, _), node in batch.nodes.items())


def writing(database: str) -> AbstractContextManager[Retold]:
    """The use cases on this database; nobody is told of what they write."""
    return retold(database, Settings(hints=False))


def open_session(app: Retold, session: str, *, offers: int = 1, tenant: str = "acme") -> Sequence[Recorded]:
    """A session with that many offered handoffs, each of which the graph shows; returns those."""
    app.open_session(tenant=tenant, session_id=session, user="ada", project="moon", agent="planner")
    return [offer(app, session, tenant=tenant) for _ in range(offers)]


def offer(app: Retold, session: str, *, tenant: str = "acme") -> Recorded:
    """A handoff that is offered in an open session."""
    (offered,) = app.offer_handoff(tenant=tenant, session_id=session, to_agent="critic", reason="a second look")
    return offered


def offers_of(graph: GraphEndpoint, session: str) -> list[int]:
    """The versions of the offers that the graph shows of a session, in the order of the log."""
    query = "MATCH (n:Handoff {session: $session}) RETURN n.version ORDER BY n.position"
    return [version for (version,) in live(graph, query, session=session)]


def live(graph: GraphEndpoint, query: str, **parameters: Any) -> list[Row]:
    """The rows of a query of the graph, past all that is tested."""
    with (
        neo4j.GraphDatabase.driver(graph.url, auth=(graph.user, graph.password)) as driver,
        driver.session(database=graph.database) as session,
    ):
        return [tuple(record.values()) for record in session.run(query, parameters)]


def verified(parts: Parts, *, drain: bool = True, within: timedelta = timedelta(seconds=30)) -> Verdict:
    """Under the lock: drain, compare the live graph with the fold of the log, and fail where they differ."""
    with parts.projector.exclusively(within):
        if drain:
            parts.projector.drain()
        verdict = parts.verify()
    assert verdict.holds, (verdict.differences[:10], verdict.untellable[:10])
    return verdict


def outlook(database: str) -> Outlook:
    """How the projection is doing, as an operator sees it."""
    return Outlook(database, timedelta(seconds=5))


def rows(database: str, query: str, *parameters: object) -> list[Row]:
    """The rows of a query, or of a statement that returns some, committed."""
    with psycopg.connect(database, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


def untouched(database: str) -> bool:
    """Whether no row was ever accused: no attempt counted, nothing parked."""
    return rows(database, "SELECT count(*) FROM outbox WHERE attempts > 0 OR parked_at IS NOT NULL") == [(0,)]


def cut_off(database: str) -> None:
    """The server ends the connection of the projector that holds the graph, as a fail-over or an administrator does."""
    assert rows(database, CUT_OFF) == [(True,)]


def pending(database: str) -> int:
    """How many rows wait for the graph and are not parked."""
    return outlook(database).status().pending


class ProjectorProcess:
    """`python -m projector`, or another program, on these servers; it can be killed and started again."""

    def __init__(
        self, database: str, graph: GraphEndpoint, *, program: tuple[str, ...] = ("-m", "projector"), **settings: Any
    ) -> None:
        self._command = [sys.executable, *program]
        self._environment = environment(database, graph, **settings)
        self._process: subprocess.Popen[bytes] | None = None
        # A file and not a pipe: nobody has to read along, and a process that is killed leaves what it said.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, env=self._environment, cwd=PROJECT, stdout=self._output, stderr=subprocess.STDOUT
        )

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: no word of farewell."""
        self._signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self._signal(signal.SIGTERM)
        return self.wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait(self, within: float = 30.0) -> int:
        """The exit code, once it has ended."""
        assert self._process is not None
        return self._process.wait(within)

    def output(self) -> str:
        """Everything that it and those started before it have said."""
        self._output.seek(0)
        said = self._output.read().decode(errors="replace")
        self._output.seek(0, os.SEEK_END)
        return said

    def close(self) -> None:
        if self.alive:
            self.resume()
            self.kill()
        self._output.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


@contextmanager
def projector_process(
    database: str, graph: GraphEndpoint, *, program: tuple[str, ...] = ("-m", "projector"), **settings: Any
) -> Iterator[ProjectorProcess]:
    """A started projector process; whatever is left of it at the end is killed."""
    process = ProjectorProcess(database, graph, program=program, **settings)
    try:
        process.start()
        yield process
    finally:
        process.close()


def environment(database: str, graph: GraphEndpoint, **settings: Any) -> dict[str, str]:
    """The variables under which a program of ours finds these servers."""
    ours = {
        "database_url": database,
        "graph_url": graph.url,
        "graph_user": graph.user,
        "graph_password": graph.password,
        "graph_database": graph.database,
        "log_format": "json",
        **QUICK,
        **settings,
    }
    others = {name: value for name, value in os.environ.items() if not name.startswith("RETOLD_")}
    return others | {variable(name): str(value) for name, value in ours.items()}
