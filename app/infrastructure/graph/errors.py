"""The one place that decides what an error of the graph means: an outage, a clash, or the statement's own fault.

Decided by the error's class and by the code that the server sent, never by its message: the embedded server hides its
messages, and Neo4j rewords them.
"""

from enum import Enum, auto
from typing import Final

from neo4j.exceptions import DriverError, Neo4jError

from app.domain.errors import GraphUnavailable, RuleBroken


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
    return GraphUnavailable(f"the graph at {url} is not available, try again later: {_words(error)}")


def _kind_of_code(code: str) -> Kind:
    beginnings = [each for each in _BY_CODE if code.startswith(each)]
    return _BY_CODE[max(beginnings, key=len)] if beginnings else Kind.DOUBTFUL


def _words(error: Exception) -> str:
    # The rest of a server's message can hold the values of the statement, at any length.
    if isinstance(error, Neo4jError):
        return f"{error.code}: {(error.message or '')[:200]}"
    return f"{type(error).__name__}: {str(error)[:200]}"
