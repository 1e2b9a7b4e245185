"""Which servers a process talks to: the ones that the settings name, else the embedded ones of the home."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.domain.errors import Unavailable
from app.infrastructure.embedded import graph, postgres
from app.infrastructure.embedded.graph import EmbeddedGraph
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.postgres import EmbeddedPostgres
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.settings import Settings


@dataclass(frozen=True)
class Servers:
    """Where the log and the graph are; the URL of the log holds its password and is never shown."""

    database_url: str = field(repr=False)
    graph: GraphEndpoint


EmbeddedServer = EmbeddedPostgres | EmbeddedGraph


def resolve(settings: Settings) -> Servers:
    """The servers of this process; Unavailable when one is neither set nor running in the home."""
    home = Home(settings.home)
    return Servers(resolve_database(settings, home), resolve_graph(settings, home))


def resolve_database(settings: Settings, home: Home) -> str:
    """The URL of the log's database."""
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    server, password = home.running(postgres.NAME), home.known_secret(postgres.CREDENTIAL)
    if server is None or password is None:
        raise _nothing_runs("PostgreSQL", home, "RETOLD_DATABASE_URL")
    return postgres.database_url(password, server.port)


def resolve_graph(settings: Settings, home: Home) -> GraphEndpoint:
    """Where the graph is; without a password in the settings a Neo4j is asked with an empty one."""
    if settings.graph_url is not None:
        password = settings.graph_password.get_secret_value() if settings.graph_password else ""
        return GraphEndpoint(settings.graph_url, settings.graph_user, password, settings.graph_database)
    server, known = home.running(graph.NAME), home.known_secret(graph.CREDENTIAL)
    if server is None or known is None:
        raise _nothing_runs("graph", home, "RETOLD_GRAPH_URL")
    return graph.embedded_endpoint(known, server.port)


@contextlib.contextmanager
def start_embedded(settings: Settings) -> Iterator[tuple[EmbeddedServer, ...]]:
    """The embedded servers that the settings leave to us, started in order and stopped in reverse.

    The caller holds the lock of the home. With both URLs set there is nothing to start.
    """
    with contextlib.ExitStack() as stack:
        started = []
        for server in embedded_servers(settings):
            # Registered before it starts: what fails half way is stopped as well.
            stack.callback(server.stop)
            server.start()
            started.append(server)
        yield tuple(started)


def embedded_servers(settings: Settings) -> tuple[EmbeddedServer, ...]:
    """The servers that have no URL in the settings, not started yet."""
    home = settings.home
    database = () if settings.database_url else (EmbeddedPostgres(home, settings.postgres_port),)
    return (*database, *(() if settings.graph_url else (EmbeddedGraph(home, settings.bolt_port),)))


def _nothing_runs(what: str, home: Home, name: str) -> Unavailable:
    return Unavailable(f"No {what} server is running in {home.shown}: start it with `retold up`, or set {name}.")
