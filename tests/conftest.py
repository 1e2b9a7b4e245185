"""What every test may ask for: a migrated database of its own, an empty graph, a graph that it may kill."""

import contextlib
import importlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import structlog

from app.infrastructure.graph.endpoint import GraphEndpoint
from tests import servers
from tests.servers import GraphServer


def pytest_configure() -> None:
    # A test run that was put into the background ignores SIGINT, and so would every process that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own settings change no test."""
    for name in list(os.environ):
        if name.startswith("RETOLD_") and not name.startswith("RETOLD_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that a test has run in this process sets up logging for itself, not for the next test."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def database_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server's first database, for tests that make their own."""
    with servers.database_server(tmp_path_factory.mktemp("database")) as url:
        yield url


@pytest.fixture(scope="session")
def template_database(database_url: str) -> Iterator[str]:
    """The name of a migrated database that is copied for every test."""
    name = f"template_{uuid4().hex}"
    servers.create_database(database_url, name)
    try:
        _migrate(servers.with_database(database_url, name))
        yield name
    finally:
        servers.drop_database(database_url, name)


@pytest.fixture
def database(database_url: str, template_database: str) -> Iterator[str]:
    """The URL of a migrated, empty database of this test's own."""
    with servers.clone_of(database_url, template_database) as url:
        yield url


@pytest.fixture
def bare_database(database_url: str) -> Iterator[str]:
    """The URL of a database without any of our tables."""
    with servers.clone_of(database_url, "template1") as url:
        yield url


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphEndpoint]:
    """The graph of the whole run; whoever needs it empty takes `empty_graph`."""
    with servers.graph_server(tmp_path_factory.mktemp("graph")) as endpoint:
        yield endpoint


@pytest.fixture
def empty_graph(graph: GraphEndpoint) -> GraphEndpoint:
    """The graph of the run without a node in it."""
    servers.wipe(graph)
    return graph


@pytest.fixture
def faulty_graph(tmp_path: Path) -> Iterator[Callable[[], GraphServer]]:
    """Makes started graph servers that the test may kill, pause and start again on the same port."""
    with contextlib.ExitStack() as stack:

        def make() -> GraphServer:
            server = servers.private_graph(tmp_path / f"graph-{uuid4().hex[:8]}")
            stack.callback(server.stop)
            server.start()
            return server

        yield make


def _migrate(url: str) -> None:
    importlib.import_module("app.infrastructure.postgres.migration").migrate(url)
