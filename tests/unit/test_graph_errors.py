"""The kind of every error that the two graph servers and the driver were seen to give, and of those they document."""

import struct

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
