"""`retold doctor`: is everything there that Retold needs, and if not, what to do."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Final, Literal

import typer

from app.cli.address import shown
from app.cli.migrate import Migrated, look
from app.cli.output import AsJson, console, print_json, print_table
from app.domain.errors import RetoldError, Unavailable
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.servers import resolve_database, resolve_graph
from app.infrastructure.graph.client import GraphClient
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.graph.facts import GraphFacts, graph_facts
from app.infrastructure.postgres.facts import DatabaseFacts, WorkFacts, database_facts, may_write, work_facts
from app.settings import Settings, load_settings

POSTGRES: Final = 16
VECTOR: Final = (0, 8)
GRAPH: Final = (5, 26)
KEY_CONSTRAINT: Final = re.compile(r"retold_\w+_key")
MARKS: Final = {"ok": "[green]ok[/green]", "warning": "[yellow]warning[/yellow]", "failed": "[red]failed[/red]"}


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, how it is, what was found there, and what to do about it."""

    name: str
    state: Literal["ok", "warning", "failed"]
    found: str
    advice: str | None = None


def doctor(
    as_json: AsJson = False,
    credentials: Annotated[
        bool, typer.Option("--credentials", help="With --json: show user and password in database.url and graph.")
    ] = False,
) -> None:
    """Look at servers, versions, extensions, migrations, constraints, permissions and the projection.

    Exit code 1 if any check has failed; a warning is worth a look.
    """
    settings = load_settings()
    database, graph = _database(settings), _graph(settings)
    checks = (*_database_checks(settings, database), *_graph_checks(settings, graph))
    if as_json:
        print_json(
            {
                "checks": [asdict(each) for each in checks],
                "database": {"url": _database_url(database, credentials=credentials)},
                "graph": _graph_facts(graph, credentials=credentials),
            }
        )
    else:
        _show(checks)
    if any(each.state == "failed" for each in checks):
        raise typer.Exit(1)


def _database(settings: Settings) -> str | Unavailable:
    try:
        return resolve_database(settings, Home(settings.home))
    except Unavailable as error:
        return error


def _graph(settings: Settings) -> GraphEndpoint | Unavailable:
    try:
        return resolve_graph(settings, Home(settings.home))
    except Unavailable as error:
        return error


def _database_url(database: str | Unavailable, *, credentials: bool) -> str | None:
    if isinstance(database, Unavailable):
        return None
    return database if credentials else shown(database)


def _graph_facts(graph: GraphEndpoint | Unavailable, *, credentials: bool) -> dict[str, str | None]:
    if isinstance(graph, Unavailable):
        return {"url": None, "user": None, "database": None}
    facts: dict[str, str | None] = {"url": graph.url, "user": graph.user, "database": graph.database}
    return {**facts, "password": graph.password} if credentials else facts


def _show(checks: Sequence[Check]) -> None:
    print_table("Doctor", ("check", "state", "found"), [(each.name, each.state, each.found) for each in checks])
    for each in checks:
        if each.advice:
            console().print(f"{MARKS[each.state]} {each.name}: ", end="")
            console().print(each.advice, markup=False, highlight=False, soft_wrap=True)


def _database_checks(settings: Settings, database: str | Unavailable) -> Iterator[Check]:
    if isinstance(database, Unavailable):
        yield _failure("database", database, "RETOLD_DATABASE_URL")
        return
    timeout = settings.database_connect_timeout
    try:
        facts = database_facts(database, connect_timeout=timeout)
        yield Check("database", "ok", f"{shown(database)}, as {facts.user}")
        yield from _server_checks(facts)
        migrated = look(database)
        yield _migrations(migrated)
        if not facts.has_tables:
            return
        writable = may_write(database, connect_timeout=timeout)
        yield _permissions(facts, may_write_tables=writable)
        if migrated.after == migrated.head:
            yield from _work_checks(settings, work_facts(database, connect_timeout=timeout))
    except RetoldError as error:
        yield _failure("database", error, "RETOLD_DATABASE_URL")


def _server_checks(facts: DatabaseFacts) -> Iterator[Check]:
    if facts.major < POSTGRES:
        yield Check("database version", "failed", f"PostgreSQL {facts.version}", f"upgrade to {POSTGRES} or later")
    else:
        yield Check("database version", "ok", f"PostgreSQL {facts.version}")
    yield _vector(facts)
    if not facts.has_tables:
        yield _permissions(facts, may_write_tables=True)


def _vector(facts: DatabaseFacts) -> Check:
    wanted = ".".join(map(str, VECTOR))
    if facts.vector_installed and _number(facts.vector_installed) >= VECTOR:
        return Check("vector extension", "ok", f"pgvector {facts.vector_installed}")
    if facts.vector_installed:
        advice = f"install pgvector {wanted} or later, then ALTER EXTENSION vector UPDATE"
        return Check("vector extension", "warning", f"pgvector {facts.vector_installed}", advice)
    if facts.vector_available and _number(facts.vector_available) >= VECTOR:
        advice = "as a superuser: CREATE EXTENSION vector; recall needs it, the log does not"
        return Check("vector extension", "warning", f"pgvector {facts.vector_available}, not created yet", advice)
    advice = f"install pgvector {wanted} or later on the server; recall needs it, the log does not"
    return Check("vector extension", "warning", facts.vector_available or "not installed", advice)


def _migrations(migrated: Migrated) -> Check:
    if migrated.after == migrated.head:
        return Check("migrations", "ok", f"at {migrated.head}")
    advice = "upgrade Retold: the database is newer" if migrated.newer else "run `retold migrate`"
    return Check("migrations", "failed", f"at {migrated.after or 'nothing'}, wanted {migrated.head}", advice)


def _permissions(facts: DatabaseFacts, *, may_write_tables: bool) -> Check:
    name = "database permissions"
    if facts.read_only:
        return Check(name, "failed", "read-only", "point RETOLD_DATABASE_URL at the primary")
    if not may_write_tables:
        advice = f"grant SELECT, INSERT and UPDATE on the tables of Retold to {facts.user}"
        return Check(name, "failed", f"{facts.user} may not write the log", advice)
    if not facts.may_create:
        state: Literal["warning", "failed"] = "warning" if facts.has_tables else "failed"
        return Check(
            name,
            state,
            f"{facts.user} may not create tables",
            f"migrations need it: GRANT CREATE ON SCHEMA public TO {facts.user}, or migrate as another role",
        )
    return Check(name, "ok", f"{facts.user} may create tables and write")


def _work_checks(settings: Settings, work: WorkFacts) -> Iterator[Check]:
    found = f"{work.pending:,} pending, {work.parked:,} parked"
    if work.parked:
        yield Check("outbox", "warning", found, "see `retold projector parked list`")
    else:
        yield Check("outbox", "ok", found)
    yield _projector(settings, work)


def _projector(settings: Settings, work: WorkFacts) -> Check:
    start = "start it with `retold up` or `retold projector run`"
    if work.seconds_since_attempt is None:
        return Check("projector", "warning", "has never run", start)
    last = f"last at work {work.seconds_since_attempt:,.0f} s ago"
    if work.seconds_since_attempt > settings.stuck_after.total_seconds():
        return Check("projector", "warning", last, f"it is dead or stuck: {start}")
    if work.outage is not None:
        return Check("projector", "warning", f"waits for the graph: {work.outage}", "it goes on when the graph is back")
    return Check("projector", "ok", last)


def _graph_checks(settings: Settings, graph: GraphEndpoint | Unavailable) -> Iterator[Check]:
    if isinstance(graph, Unavailable):
        yield _failure("graph", graph, "RETOLD_GRAPH_URL")
        return
    with GraphClient(graph, timeout=settings.graph_timeout, connect_timeout=settings.graph_connect_timeout) as client:
        try:
            facts = graph_facts(client)
        except RetoldError as error:
            yield _failure("graph", error, "RETOLD_GRAPH_URL")
            return
    yield Check("graph", "ok", f"{graph.url}, database {graph.database}, as {graph.user}")
    yield _graph_version(facts)
    yield _constraints(facts)
    if facts.refusal is None:
        yield Check("graph permissions", "ok", f"{graph.user} may write")
    else:
        yield Check("graph permissions", "failed", facts.refusal, f"let {graph.user} write to {graph.database}")


def _graph_version(facts: GraphFacts) -> Check:
    found = f"{facts.product} {facts.version}"
    if _number(facts.version) < GRAPH:
        return Check("graph version", "failed", found, f"upgrade Neo4j to {'.'.join(map(str, GRAPH))} or later")
    return Check("graph version", "ok", found)


def _constraints(facts: GraphFacts) -> Check:
    keys = [each for each in facts.constraints if KEY_CONSTRAINT.fullmatch(each)]
    if not keys:
        advice = "the projector creates them when it first runs: `retold up` or `retold projector run`"
        return Check("graph constraints", "warning", "none yet", advice)
    return Check("graph constraints", "ok", f"{len(keys)} keys are unique")


def _failure(name: str, error: RetoldError, variable: str) -> Check:
    advice = f"start the servers with `retold up`, or check {variable} and whether that server can be reached"
    return Check(name, "failed", str(error), advice)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:2])
