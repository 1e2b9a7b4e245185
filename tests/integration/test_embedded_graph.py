"""The embedded graph: ready when it says so, reached by its password alone, quick to stop."""

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path

import neo4j
import psutil
import pytest
from neo4j.exceptions import AuthError

from app.domain.errors import RuleBroken, Unavailable
from app.infrastructure.embedded.graph import EmbeddedGraph
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.servers import resolve_graph
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.settings import Settings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedGraph]:
    server = EmbeddedGraph(tmp_path_factory.mktemp("graph") / "home")
    try:
        server.start()
        yield server
    finally:
        server.stop()


def count(endpoint: GraphEndpoint, query: str) -> int:
    with neo4j.GraphDatabase.driver(endpoint.url, auth=(endpoint.user, endpoint.password)) as driver:
        records = driver.execute_query(query, database_=endpoint.database).records
        return int(records[0][0])


def test_data_and_url_outlive_a_stop_which_takes_a_moment(server: EmbeddedGraph) -> None:
    endpoint = server.endpoint
    count(endpoint, "CREATE (n:Kept {key: 'k'}) RETURN 1")

    before = time.monotonic()
    server.stop()
    assert time.monotonic() - before < 5
    assert not server.alive()
    server.start()

    assert server.endpoint == endpoint
    assert count(endpoint, "MATCH (n:Kept) RETURN count(n)") == 1


def test_other_commands_find_it(server: EmbeddedGraph) -> None:
    settings = Settings(home=server.home.path)

    assert resolve_graph(settings, Home(settings.home)) == server.endpoint


def test_a_wrong_password_is_refused(server: EmbeddedGraph) -> None:
    with (
        neo4j.GraphDatabase.driver(server.url, auth=("root", "wrong")) as driver,
        pytest.raises(AuthError),
    ):
        driver.verify_connectivity()


def test_it_listens_on_loopback_alone(server: EmbeddedGraph) -> None:
    assert server.pid is not None
    addresses = [each.laddr.ip for each in psutil.Process(server.pid).net_connections() if each.status == "LISTEN"]

    assert addresses
    assert set(addresses) <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_no_password_is_in_arguments_environment_or_log(server: EmbeddedGraph) -> None:
    assert server.pid is not None
    process = psutil.Process(server.pid)
    shown = " ".join(process.cmdline()) + str(process.environ()) + server.log_path.read_text()

    assert server.password not in shown
    assert server.password not in repr(server.endpoint)


def test_everything_it_writes_is_in_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: EmbeddedGraph
) -> None:
    server.stop()
    monkeypatch.chdir(tmp_path)

    server.start()

    assert list(tmp_path.iterdir()) == []
    assert (server.home.path / "graph" / "log").is_dir()


def test_a_port_in_use_is_named(tmp_path: Path, server: EmbeddedGraph) -> None:
    with pytest.raises(RuleBroken, match=f"Port {server.port} .*RETOLD_BOLT_PORT"):
        EmbeddedGraph(tmp_path, port=server.port).start()


def test_a_server_that_dies_while_it_starts_shows_why_and_names_its_log(tmp_path: Path) -> None:
    server = EmbeddedGraph(tmp_path, heap="nonsense")

    with pytest.raises(Unavailable, match=r"ended while it was starting \(.*nonsense.*log/graph\.log\.$"):
        server.start()
    server.stop()


def test_a_home_may_have_any_letters_in_its_name_whatever_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    server = EmbeddedGraph(tmp_path / "höme")
    try:
        server.start()
        assert (tmp_path / "höme" / "graph" / "databases").is_dir()
    finally:
        server.stop()


def test_without_the_wheel_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(RuleBroken, match=r"retold\[embedded\].*RETOLD_GRAPH_URL"):
        EmbeddedGraph(tmp_path).start()
