"""How often the door to the graph tries, and how it decides whose fault an unnamed failure is."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import neo4j
import pytest
from neo4j.exceptions import Neo4jError, ServiceUnavailable

from app.domain.errors import GraphUnavailable
from app.infrastructure.graph.client import ATTEMPTS, GraphClient
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.graph.errors import GraphRefused

DEADLOCK = Neo4jError._hydrate_neo4j(code="Neo.TransientError.Transaction.DeadlockDetected", message="")
UNNAMED = Neo4jError._hydrate_neo4j(code="Neo.DatabaseError.General.UnknownError", message="")
SYNTAX = Neo4jError._hydrate_neo4j(code="Neo.ClientError.Statement.SyntaxError", message="")


class ScriptedClient(GraphClient):
    """Fails as the script says, call by call, and then answers; a probe fails with `probe`."""

    def __init__(self, script: list[Exception], probe: Exception | None = None) -> None:
        second = timedelta(seconds=10)
        super().__init__(GraphEndpoint("bolt://graph", "u", "p", "d"), timeout=second, connect_timeout=second)
        self.script, self.probe, self.calls, self.probes = script, probe, 0, 0

    async def _once(self, work: Callable[[neo4j.AsyncSession], Awaitable[Any]]) -> Any:
        if work.__qualname__.startswith("GraphClient._can_write"):
            self.probes += 1
            if self.probe is not None:
                raise self.probe
            return None
        self.calls += 1
        if self.script:
            raise self.script.pop(0)
        return []


@pytest.mark.parametrize("error", [DEADLOCK, UNNAMED], ids=["deadlock", "unnamed"])
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    with ScriptedClient([error] * (ATTEMPTS - 1)) as client:
        client.ping()
    assert (client.calls, client.probes) == (ATTEMPTS, 0)


def test_a_clash_that_does_not_pass_is_an_outage_and_no_rows_fault() -> None:
    with ScriptedClient([DEADLOCK] * ATTEMPTS) as client, pytest.raises(GraphUnavailable):
        client.ping()
    assert client.probes == 0


def test_an_unnamed_failure_is_the_statements_own_if_something_else_can_be_written() -> None:
    with ScriptedClient([UNNAMED] * ATTEMPTS) as client, pytest.raises(GraphRefused):
        client.ping()
    assert client.probes == 1


@pytest.mark.parametrize("probe", [UNNAMED, ServiceUnavailable("gone"), SYNTAX])
def test_an_unnamed_failure_is_an_outage_if_nothing_else_can_be_written(probe: Exception) -> None:
    with ScriptedClient([UNNAMED] * ATTEMPTS, probe) as client, pytest.raises(GraphUnavailable):
        client.ping()


def test_a_probe_that_clashes_with_another_is_a_sign_of_life() -> None:
    with ScriptedClient([UNNAMED] * ATTEMPTS, DEADLOCK) as client, pytest.raises(GraphRefused):
        client.ping()


@pytest.mark.parametrize(("error", "outcome"), [(SYNTAX, GraphRefused), (ServiceUnavailable("gone"), GraphUnavailable)])
def test_what_cannot_pass_is_tried_once(error: Exception, outcome: type[Exception]) -> None:
    with ScriptedClient([error]) as client, pytest.raises(outcome):
        client.ping()
    assert client.calls == 1


@pytest.mark.parametrize(
    "url", ["bolt://graph:7687?a=b", "bolt://a..b", "bolt://" + "a" * 70, "http://graph", "bolt://g:x"]
)
def test_a_url_that_the_driver_cannot_use_is_an_outage_that_names_the_setting_and_no_rows_fault(url: str) -> None:
    second = timedelta(seconds=1)
    endpoint = GraphEndpoint(url, "u", "p", "d")
    with (
        GraphClient(endpoint, timeout=second, connect_timeout=second) as client,
        pytest.raises(GraphUnavailable, match=r"correct RETOLD_GRAPH_URL$"),
    ):
        client.ping()
