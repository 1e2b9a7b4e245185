"""The kind of every error that the two graph servers and the driver were seen to give, and of those they document."""

import re
import socket
import struct
from collections.abc import Callable

import pytest
from neo4j import exceptions as driver
from neo4j.exceptions import Neo4jError

from app.domain.errors import GraphUnavailable, RuleBroken
from app.infrastructure.graph.errors import GraphRefused, Kind, kind_of, refused, unavailable

OUTAGES = [
    "Neo.ClientError.Security.Unauthorized",
    "Neo.ClientError.Security.AuthorizationExpired",
    "Neo.ClientError.Security.CredentialsExpired",
    "Neo.ClientError.Security.Forbidden",
    "Neo.ClientError.Security.AuthenticationRateLimit",
    "Neo.ClientError.Security.TokenExpired",
    "Neo.ClientError.Database.DatabaseNotFound",
    "Neo.ClientError.Cluster.NotALeader",
    "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase",
    "Neo.ClientError.Transaction.TransactionTimedOut",
    "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration",
    "Neo.ClientError.Transaction.Terminated",
    "Neo.TransientError.Transaction.Terminated",
    "Neo.ClientError.Transaction.LockClientStopped",
    "Neo.TransientError.Database.DatabaseUnavailable",
    "Neo.TransientError.General.DatabaseUnavailable",
    "Neo.TransientError.Cluster.ReplicationFailure",
    "Neo.DatabaseError.Database.DatabaseLimitReached",
    "Neo.DatabaseError.Transaction.TransactionStartFailed",
    "Neo.DatabaseError.Transaction.TransactionLogError",
    "Neo.DatabaseError.General.StorageDamageDetected",
]
TRANSIENT = [
    "Neo.TransientError.Transaction.DeadlockDetected",
    "Neo.TransientError.Transaction.LockAcquisitionTimeout",
    "Neo.TransientError.Transaction.Outdated",
    "Neo.TransientError.Request.NoThreadsAvailable",
    "Neo.TransientError.Statement.SomethingNew",
]
REFUSED = [
    "Neo.ClientError.Statement.SyntaxError",
    "Neo.ClientError.Statement.SemanticError",
    "Neo.ClientError.Statement.TypeError",
    "Neo.ClientError.Statement.ArgumentError",
    "Neo.ClientError.Statement.ArithmeticError",
    "Neo.ClientError.Statement.ParameterMissing",
    "Neo.ClientError.Procedure.ProcedureNotFound",
    "Neo.ClientError.SomethingNew.Entirely",
]
DOUBTFUL = [
    "Neo.ClientError.Schema.ConstraintValidationFailed",
    "Neo.ClientError.Statement.EntityNotFound",
    "Neo.ClientError.Request.Invalid",
    "Neo.ClientError.Transaction.TransactionNotFound",
    "Neo.DatabaseError.General.UnknownError",
    "Neo.DatabaseError.Statement.ExecutionFailed",
    "Neo.DatabaseError.Transaction.TransactionCommitFailed",
    "Neo.TransientError.General.OutOfMemoryError",
    "Neo.TransientError.General.MemoryPoolOutOfMemoryError",
    "Neo.TransientError.General.TransactionOutOfMemoryError",
    "Not.A.Code",
    "nonsense",
]
CODES = [
    *((code, Kind.OUTAGE) for code in OUTAGES),
    *((code, Kind.TRANSIENT) for code in TRANSIENT),
    *((code, Kind.REFUSED) for code in REFUSED),
    *((code, Kind.DOUBTFUL) for code in DOUBTFUL),
]


def from_server(code: str, message: str = "it says") -> Neo4jError:
    # As the driver makes it of what a server sends: class and rewritten code are its own business.
    return Neo4jError._hydrate_neo4j(code=code, message=message)


@pytest.mark.parametrize(("code", "kind"), CODES)
def test_the_code_of_the_server_decides(code: str, kind: Kind) -> None:
    assert kind_of(from_server(code)) is kind


@pytest.mark.parametrize(
    "error",
    [
        driver.ServiceUnavailable("refused"),
        driver.SessionExpired("gone"),
        driver.IncompleteCommit("unknown outcome"),
        driver.ConnectionAcquisitionTimeoutError("full"),
        driver.ConfigurationError("scheme"),
        driver.DriverError("closed"),
        ConnectionResetError("reset"),
        ConnectionRefusedError("refused"),
        TimeoutError("slow"),
        OSError("no route"),
    ],
)
def test_whatever_happens_between_us_and_the_server_is_an_outage(error: Exception) -> None:
    assert kind_of(error) is Kind.OUTAGE


@pytest.mark.parametrize(
    "error",
    [
        TypeError("no form"),
        ValueError("no form"),
        OverflowError("66 bits"),
        struct.error("no form"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "lone surrogate"),
    ],
)
def test_a_value_that_cannot_be_sent_is_the_rows_own_fault(error: Exception) -> None:
    assert kind_of(error) is Kind.REFUSED


def test_an_outage_says_where_and_what() -> None:
    error = unavailable("bolt://graph:7687", from_server("Neo.ClientError.Security.Unauthorized"))
    assert isinstance(error, GraphUnavailable)
    assert "bolt://graph:7687" in str(error)
    assert "Neo.ClientError.Security.Unauthorized" in str(error)


def test_a_refusal_is_a_broken_rule_and_is_short() -> None:
    error = refused(from_server("Neo.ClientError.Statement.TypeError", "x" * 1_000_000))
    assert isinstance(error, GraphRefused)
    assert isinstance(error, RuleBroken)
    assert len(str(error)) < 400


def caused_by(cause: BaseException | None) -> Exception:
    # As the driver wraps what happens while it connects.
    inner = driver.ServiceUnavailable("Failed to establish connection to ResolvedIPv4Address(('127.0.0.1', 1))")
    outer = driver.ServiceUnavailable("Couldn't connect to 127.0.0.1:1 (resolved to ('127.0.0.1:1',)):\nFailed")
    inner.__cause__, outer.__cause__ = cause, inner
    return outer


def routed(error: Exception) -> Exception:
    outer = driver.ServiceUnavailable("Unable to retrieve routing information")
    outer.__cause__ = ExceptionGroup("All routing table requests failed", [error])
    return outer


REFUSED_CONNECTION = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (from_server("Neo.ClientError.Security.Unauthorized"), "RETOLD_GRAPH_USER and RETOLD_GRAPH_PASSWORD"),
        (from_server("Neo.ClientError.Security.CredentialsExpired"), "RETOLD_GRAPH_PASSWORD"),
        (from_server("Neo.ClientError.Security.Forbidden"), "RETOLD_GRAPH_USER"),
        (from_server("Neo.ClientError.Database.DatabaseNotFound"), "RETOLD_GRAPH_DATABASE"),
        (from_server("Neo.ClientError.Cluster.NotALeader"), "RETOLD_GRAPH_URL"),
        (from_server("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase"), "RETOLD_GRAPH_URL"),
        (from_server("Neo.ClientError.Transaction.TransactionTimedOut"), "RETOLD_GRAPH_TIMEOUT"),
        (from_server("Neo.DatabaseError.General.UnknownError"), "log of the graph server"),
        (from_server("Neo.TransientError.Transaction.DeadlockDetected"), "try again"),
        (from_server("Not.A.Code"), "log of the graph server"),
        (driver.ConfigurationError("Routing context"), "correct RETOLD_GRAPH_URL"),
        (driver.ConnectionAcquisitionTimeoutError("full"), "RETOLD_GRAPH_CONNECT_TIMEOUT"),
        (driver.SessionExpired("gone"), "try again"),
        (REFUSED_CONNECTION, "host and port in RETOLD_GRAPH_URL"),
        (caused_by(REFUSED_CONNECTION), "host and port in RETOLD_GRAPH_URL"),
        (routed(caused_by(REFUSED_CONNECTION)), "host and port in RETOLD_GRAPH_URL"),
        (caused_by(socket.gaierror(-2, "Name or service not known")), "the host in RETOLD_GRAPH_URL"),
        (caused_by(TimeoutError("read timed out")), "RETOLD_GRAPH_CONNECT_TIMEOUT"),
        (caused_by(ConnectionResetError(104, "reset by peer")), "a Bolt port"),
        (caused_by(OSError(113, "No route to host")), "RETOLD_GRAPH_URL"),
        (caused_by(None), "a Bolt port"),
        (driver.UnsupportedServerProduct("no common version"), "a Bolt port"),
    ],
)
def test_an_outage_ends_with_what_to_do(error: Exception, advice: str) -> None:
    message = str(unavailable("bolt://graph:7687", error))
    assert advice in message.rpartition("); ")[2]


@pytest.mark.parametrize("code", OUTAGES)
def test_every_outage_that_a_server_can_name_has_advice(code: str) -> None:
    assert str(unavailable("bolt://graph:7687", from_server(code))).rpartition("); ")[2]


def test_what_happened_is_told_by_the_first_cause_and_not_by_what_the_driver_wrapped_around_it() -> None:
    message = str(unavailable("neo4j://graph:7687", routed(caused_by(REFUSED_CONNECTION))))
    assert "(ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 1))" in message
    assert "ServiceUnavailable" not in message


@pytest.mark.parametrize("say", [refused, lambda error: unavailable("bolt://graph:7687", error)])
def test_every_message_is_one_line_and_cut_at_a_word(say: Callable[[Exception], Exception]) -> None:
    message = str(say(from_server("Neo.DatabaseError.General.UnknownError", "it says\n\tfailed  " * 100)))
    assert message.isprintable()
    assert "  " not in message
    assert re.search(r"(says|failed)…", message)
