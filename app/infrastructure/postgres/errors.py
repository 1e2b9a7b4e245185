"""Where the errors of PostgreSQL and its libraries end and those of Retold begin."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
import sqlalchemy.exc
from sqlalchemy import Engine

from app.domain.errors import Conflict, LogUnavailable, RetoldError, RuleBroken
from app.infrastructure.sentence import one_line

# By SQLSTATE or its class (first two characters): the server is away, full, shutting down, refuses us, or is not ours.
UNAVAILABLE: Final = {
    "08": "check RETOLD_DATABASE_URL and that the server runs and can be reached, then try again",
    "25006": "the server is read-only; point RETOLD_DATABASE_URL at the primary",
    "28": "check user and password in RETOLD_DATABASE_URL",
    "3D000": "create the database, or name another in RETOLD_DATABASE_URL",
    "3F": "run `retold migrate`",
    "42501": "grant the role what it lacks",
    "42703": "run `retold migrate`",
    "42P01": "run `retold migrate`",
    "53": "give the server more room or more connections, then try again",
    "55P03": "something else holds the lock; try again when it is done",
    "57": "try again when the server is back",
    "58": "look into the log of the server, then try again",
}
RACES: Final = {"40001": "another transaction got in between", "40P01": "two transactions waited for each other"}
TAKEN: Final = {
    "pk_streams": "the stream was created meanwhile",
    "uq_events_id": "an event with this id is in the log already",
    "uq_events_tenant_stream_version": "the stream has got this version meanwhile",
}


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn the errors of the libraries into those of the domain; `where` is host:port/database.

    What is neither an outage nor a lost race is a mistake of ours and passes as it is.
    """
    try:
        yield
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError) as error:
        meant = translation(error, where)
        if meant is None:
            raise
        raise meant from error


def translation(error: Exception, where: str) -> RetoldError | None:
    """The error of the domain that `error` means; None for one that nobody outside can do anything about.

    A deadlock or a failed serialisation is a `Conflict`, not retried here: what was decided must be decided again.
    """
    if isinstance(error, sqlalchemy.exc.TimeoutError):
        return LogUnavailable(f"all connections to PostgreSQL at {where} are in use; try again in a moment")
    cause = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error
    if not isinstance(cause, psycopg.Error):
        return None
    state = cause.sqlstate or ""
    if isinstance(cause, psycopg.errors.UntranslatableCharacter):
        return RuleBroken("a text contains a NUL character, which PostgreSQL cannot keep; remove it")
    if state in RACES:
        return Conflict(f"{RACES[state]}; read again and retry")
    if isinstance(cause, psycopg.errors.UniqueViolation):
        taken = TAKEN.get(cause.diag.constraint_name or "")
        return Conflict(f"{taken}; read again and retry") if taken else None
    advice = UNAVAILABLE.get(state) or UNAVAILABLE.get(state[:2])
    # A connection that does not come about has no code: libpq tells why in words alone.
    if advice is None and not state and isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        advice = UNAVAILABLE["08"]
    return LogUnavailable(f"PostgreSQL at {where} cannot be used ({_reason(cause)}); {advice}") if advice else None


def place(engine: Engine) -> str:
    """host:port/database of an engine, for messages."""
    port = "" if engine.url.port is None else f":{engine.url.port}"
    return f"{engine.url.host}{port}/{engine.url.database or ''}"


def _reason(error: psycopg.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(lines[0]) if lines else type(error).__name__
