"""The one place that decides what an error of the graph means: an outage, a clash, or the statement's own fault.

Decided by the error's class and by the code that the server sent, never by its message: the embedded server hides its
messages, and Neo4j rewords them.
"""

from collections.abc import Collection, Iterator
from enum import Enum, auto
from typing import Final

from neo4j.exceptions import DriverError, Neo4jError

from app.domain.errors import GraphUnavailable, RuleBroken
from app.infrastructure.sentence import one_line


class GraphRefused(RuleBroken):
    """The graph is well, but this statement or a value in it can never be executed."""

    code = "graph_refused"


class Kind(Enum):
    """What to do about an error."""

    OUTAGE = auto()
    """Nothing can be written now, or the outcome is unknown: stop, and come back later."""

    TRANSIENT = auto()
    """Another transaction was in the way: try again at once; if that does not help either, it is an outage."""

    REFUSED = auto()
    """The statement's own fault: it fails for ever, and others do not."""

    DOUBTFUL = auto()
    """The server says that it failed, not at what. Try again, then write something else: if that is stored, the
    statement is refused, else it is an outage. So one row cannot block all others, and a broken disk parks no row."""


_BY_CODE: Final = {
    # What clients may do wrong, and what is wrong with the server they talk to.
    "Neo.ClientError.": Kind.REFUSED,
    "Neo.ClientError.Cluster.": Kind.OUTAGE,
    "Neo.ClientError.Database.": Kind.OUTAGE,
    "Neo.ClientError.General.": Kind.OUTAGE,
    "Neo.ClientError.Security.": Kind.OUTAGE,
    "Neo.ClientError.Request.": Kind.DOUBTFUL,
    # Two transactions that merge the same key at once: the second succeeds when it is tried again.
    "Neo.ClientError.Schema.": Kind.DOUBTFUL,
    "Neo.ClientError.Statement.EntityNotFound": Kind.DOUBTFUL,
    "Neo.ClientError.Transaction.": Kind.OUTAGE,
    # ArcadeDB's word for a commit that failed for any reason it has no name for.
    "Neo.ClientError.Transaction.TransactionNotFound": Kind.DOUBTFUL,
    "Neo.TransientError.": Kind.TRANSIENT,
    "Neo.TransientError.Cluster.": Kind.OUTAGE,
    "Neo.TransientError.Database.": Kind.OUTAGE,
    "Neo.TransientError.Security.": Kind.OUTAGE,
    "Neo.TransientError.General.DatabaseUnavailable": Kind.OUTAGE,
    # A batch or a value that is too large for the server's memory: split up, the rest of it goes through.
    "Neo.TransientError.General.OutOfMemoryError": Kind.DOUBTFUL,
    "Neo.TransientError.General.MemoryPoolOutOfMemoryError": Kind.DOUBTFUL,
    "Neo.TransientError.General.TransactionOutOfMemoryError": Kind.DOUBTFUL,
    "Neo.TransientError.General.StackOverFlowError": Kind.DOUBTFUL,
    # ArcadeDB answers `General.UnknownError` to whatever it has no name for: a full disk, and a bug that one row meets.
    "Neo.DatabaseError.": Kind.DOUBTFUL,
    "Neo.DatabaseError.Database.": Kind.OUTAGE,
    "Neo.DatabaseError.General.IndexCorruptionDetected": Kind.OUTAGE,
    "Neo.DatabaseError.General.SchemaCorruptionDetected": Kind.OUTAGE,
    "Neo.DatabaseError.General.StorageDamageDetected": Kind.OUTAGE,
    "Neo.DatabaseError.Transaction.TransactionLogError": Kind.OUTAGE,
    "Neo.DatabaseError.Transaction.TransactionStartFailed": Kind.OUTAGE,
}
"""The longest beginning of the code decides."""

_LATER: Final = "try again later"
_LOG: Final = "look into the log of the graph server, then try again"
_NOT_BOLT: Final = (
    "check that the graph server runs and that RETOLD_GRAPH_URL names a Bolt port of it, "
    "with +s in the scheme where the server asks for TLS"
)
_ADVICE_BY_CODE: Final = {
    "": _LOG,
    "Neo.ClientError.Cluster.": "let RETOLD_GRAPH_URL name the server that takes writes, or use the scheme neo4j",
    "Neo.ClientError.Database.": "check RETOLD_GRAPH_DATABASE and that this database is online, then try again",
    "Neo.ClientError.Database.DatabaseNotFound": "create the database, or name another in RETOLD_GRAPH_DATABASE",
    "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase": (
        "the database is read-only: let RETOLD_GRAPH_URL name the server that takes writes, or make it writable"
    ),
    "Neo.ClientError.Security.": "check RETOLD_GRAPH_USER and RETOLD_GRAPH_PASSWORD",
    "Neo.ClientError.Security.AuthenticationRateLimit": (
        "check RETOLD_GRAPH_USER and RETOLD_GRAPH_PASSWORD; the server takes no password for some seconds"
    ),
    "Neo.ClientError.Security.CredentialsExpired": (
        "give the user a new password on the server, and the same in RETOLD_GRAPH_PASSWORD"
    ),
    "Neo.ClientError.Security.Forbidden": "grant the user in RETOLD_GRAPH_USER what it lacks, or name another",
    "Neo.ClientError.Transaction.": _LATER,
    "Neo.ClientError.Transaction.TransactionTimedOut": (
        "if the server is well, give it more time with RETOLD_GRAPH_TIMEOUT"
    ),
    "Neo.TransientError.": _LATER,
}
"""What an operator does about an outage; the longest beginning of the code decides."""

_ADVICE_BY_CLASS: Final = {
    "UnsupportedServerProduct": _NOT_BOLT,
    "ConfigurationError": "correct RETOLD_GRAPH_URL",
    "BoltSecurityError": (
        "the server speaks no TLS there or has a certificate that is not trusted: take +s out of the scheme of "
        "RETOLD_GRAPH_URL, or give its port with TLS, with +ssc for a certificate that nobody signed"
    ),
    "ConnectionAcquisitionTimeoutError": (
        "if the server is well, give it more time with RETOLD_GRAPH_CONNECT_TIMEOUT and RETOLD_GRAPH_TIMEOUT"
    ),
    "SessionExpired": _LATER,
    "gaierror": "check the host in RETOLD_GRAPH_URL",
    "ConnectionRefusedError": "check host and port in RETOLD_GRAPH_URL and that the graph server runs, then try again",
    "TimeoutError": (
        "check that the server runs and that RETOLD_GRAPH_URL names its Bolt port; "
        "if it is only slow, set RETOLD_GRAPH_CONNECT_TIMEOUT higher"
    ),
    "ConnectionError": _NOT_BOLT,
    "OSError": "check RETOLD_GRAPH_URL and that the graph server can be reached, then try again",
    "ServiceUnavailable": _NOT_BOLT,
    "Exception": _LATER,
}
"""The same where no server has sent a code: the first entry decides that the error or a cause of it belongs to.

By name, for some are not part of the driver's public errors.
"""


def kind_of(error: Exception) -> Kind:
    """The kind of anything that a call of the driver can raise."""
    if isinstance(error, Neo4jError):
        return _kind_of_code(error.code or "")
    if isinstance(error, DriverError | OSError):
        return Kind.OUTAGE
    if type(error).__module__.startswith("neo4j."):
        # Not part of the driver's public errors: a failed handshake, TLS against plain text, another protocol.
        return Kind.OUTAGE
    # What is left is raised before anything is sent: a value that Bolt has no form for, an integer beyond 64 bits.
    return Kind.REFUSED


def refused(error: Exception) -> GraphRefused:
    return GraphRefused(f"the graph cannot execute this statement, change what it says: {_words(error)}")


def unavailable(url: str, error: Exception) -> GraphUnavailable:
    return GraphUnavailable(f"the graph at {url} is not available ({_words(error)}); {_advice(error)}")


def _kind_of_code(code: str) -> Kind:
    return _BY_CODE[_longest_beginning(code, _BY_CODE)] if code.startswith(tuple(_BY_CODE)) else Kind.DOUBTFUL


def _advice(error: Exception) -> str:
    for cause in _causes(error):
        if isinstance(cause, Neo4jError):
            return _ADVICE_BY_CODE[_longest_beginning(cause.code or "", _ADVICE_BY_CODE)]
    classes = {each.__name__ for cause in _causes(error) for each in type(cause).__mro__}
    return next(advice for name, advice in _ADVICE_BY_CLASS.items() if name in classes)


def _longest_beginning(code: str, known: Collection[str]) -> str:
    return max((each for each in known if code.startswith(each)), key=len)


def _words(error: Exception) -> str:
    # The rest of a server's message can hold the values of the statement, at any length.
    if isinstance(error, Neo4jError):
        return one_line(f"{error.code}: {error.message or ''}")
    # The driver wraps an error once or twice, in words about itself.
    first = [each for each in _causes(error) if str(each)] or [error]
    return one_line(f"{type(first[-1]).__name__}: {first[-1]}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error itself, what caused it, and so on down to the first cause; of several that came together the first."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        yield error
        error = error.__cause__
