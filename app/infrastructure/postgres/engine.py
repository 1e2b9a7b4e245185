"""Connections to PostgreSQL: a pool that survives a restart of the server, and single ones for locks and hints."""

import math
import select
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, TransactionStatus
from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError

from app.domain.errors import RuleBroken
from app.infrastructure.postgres.errors import place, translated

CONNECT_TIMEOUT: Final = timedelta(seconds=5)

# What a URL may leave out. A server that vanished without a word is noticed within a minute from both ends: by ours, so
# that nobody waits for ever, and by the server, so that the locks of a vanished client go.
DEFAULTS: Final[Mapping[str, str | int]] = {
    "host": "localhost",
    "port": 5432,
    "application_name": "retold",
    "client_encoding": "UTF8",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
SESSION: Final = (
    r"-c timezone=UTC -c default_transaction_isolation=read\ committed"
    r" -c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
)


def make_engine(url: str, *, connect_timeout: timedelta = CONNECT_TIMEOUT, pool_size: int = 10) -> Engine:
    """A pool of connections to the database at `url` (postgresql://…); nothing is connected yet.

    Its own `url` has no password, so that no log and no representation shows it. Raises `RuleBroken` for a bad URL.
    """
    arguments = _arguments(url, connect_timeout)
    engine = create_engine(
        URL.create(
            "postgresql+psycopg",
            username=_text(arguments.get("user")),
            host=_text(arguments["host"]),
            port=int(arguments["port"]) if str(arguments["port"]).isdigit() else None,
            database=_text(arguments.get("dbname")),
        ),
        creator=lambda: psycopg.connect(**arguments),
        pool_size=pool_size,
        max_overflow=2 * pool_size,
        pool_timeout=30,
        pool_reset_on_return=None,  # `borrowed` has seen to it
        use_native_hstore=False,
    )
    event.listen(engine, "checkout", _refuse_dead_connection)
    return engine


@contextmanager
def borrowed(engine: Engine) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection out of the pool; what its block leaves uncommitted is rolled back.

    Raises `LogUnavailable` where there is none to be had. Errors inside the block pass as they are.
    """
    with translated(place(engine)):
        pooled = engine.raw_connection()
    connection = cast("psycopg.Connection[tuple[Any, ...]]", pooled.driver_connection)
    try:
        yield connection
    finally:
        # Rolling back shows whether the connection still lives: a dead one must not go back into the pool.
        try:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                connection.rollback()
        except psycopg.Error:
            pooled.invalidate()
        pooled.close()


def connect(url: str, *, connect_timeout: timedelta = CONNECT_TIMEOUT) -> psycopg.Connection[tuple[Any, ...]]:
    """One connection of its own, in autocommit: for locks that live as long as it does, and for notifications.

    Raises `LogUnavailable`, and `RuleBroken` for a bad URL.
    """
    arguments = _arguments(url, connect_timeout)
    with translated(address(url)):
        return psycopg.connect(**arguments, autocommit=True)


def address(url: str) -> str:
    """Where the database is, for messages: host:port/database, without user and password."""
    parts = _parts(url)
    return f"{parts.get('host', DEFAULTS['host'])}:{parts.get('port', DEFAULTS['port'])}/{parts.get('dbname', '')}"


def _arguments(url: str, connect_timeout: timedelta) -> dict[str, Any]:
    parts = _parts(url)
    # libpq takes whole seconds, and 1 as 2.
    timeout = {"connect_timeout": max(2, math.ceil(connect_timeout.total_seconds()))}
    options = f"{SESSION} {parts.pop('options', '')}".rstrip()
    return {**DEFAULTS, **timeout, **parts, "options": options}


def _parts(url: str) -> dict[str, Any]:
    try:
        parts = dict(conninfo_to_dict(url))
    except psycopg.ProgrammingError:
        parts = None
    # The reason of libpq is never told: it quotes a part of the URL, which may be the password.
    if parts is None or _misread(url, parts):
        raise RuleBroken(
            "the URL of the database cannot be read; give postgresql://user:password@host:port/database,"
            " with special characters percent-encoded"
        ) from None
    return parts


def _misread(url: str, parts: Mapping[str, Any]) -> bool:
    """Whether libpq has taken a piece of a password that is not encoded for host, port or database, as it does."""
    authority, _, rest = url.partition("://")[2].partition("/")
    ports = str(parts.get("port", "")).split(",")
    return (
        authority.count("@") > 1 or "@" in rest.partition("?")[0] or not all(port.isdigit() for port in ports if port)
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _refuse_dead_connection(connection: Any, *_: object) -> None:  # noqa: ANN401 (SQLAlchemy's signature)
    """A connection that waits in the pool hears nothing, unless the server ended it: then its socket is readable.

    Looking at the socket costs microseconds; asking the server (`pool_pre_ping`) would cost a round trip per unit.
    """
    pgconn = connection.pgconn
    if pgconn.status != ConnStatus.OK:
        raise DisconnectionError("the connection is closed")
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    if poll.poll(0):
        raise DisconnectionError("the server ended the connection")
