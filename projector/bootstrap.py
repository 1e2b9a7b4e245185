"""The projector's composition root: its two stores, and what works on them."""

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.infrastructure.embedded.servers import Servers
from app.infrastructure.graph.client import GraphClient
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import make_engine
from app.infrastructure.postgres.log import PostgresLog
from app.settings import Settings
from projector.cycle import Projector
from projector.lock import LockedConnection
from projector.outbox import Outbox
from projector.progress import quiet
from projector.reader import GraphReader
from projector.replay import Replay
from projector.verify import Verify
from projector.writer import GraphWriter


@dataclass(frozen=True, slots=True)
class Parts:
    """What the doors of the projector call."""

    outbox: Outbox
    projector: Projector
    replay: Replay
    verify: Verify


@contextmanager
def assemble(
    servers: Servers, settings: Settings, *, stopping: Callable[[], bool] = bool, beat: Callable[[], None] = quiet
) -> Iterator[Parts]:
    """Nothing is connected yet; everything is closed on the way out.

    Long work asks `stopping` whether it is to end, and calls `beat` while it goes on.

    Raises `RuleBroken` where an event type has no way up from an older schema.
    """
    codec = Codec()
    codec.check()
    engine = make_engine(servers.database_url, connect_timeout=settings.database_connect_timeout)
    locked = LockedConnection(servers.database_url, connect_timeout=settings.database_connect_timeout)
    outbox = Outbox(locked, holder=_holder())
    client = GraphClient(servers.graph, timeout=settings.graph_timeout, connect_timeout=settings.graph_connect_timeout)
    try:
        log, writer = PostgresLog(engine, codec), GraphWriter(client)
        replay = Replay(
            outbox,
            log,
            codec,
            writer,
            batch_size=settings.batch_size,
            max_attempts=settings.max_attempts,
            stopping=stopping,
            beat=beat,
        )
        projector = Projector(
            outbox, writer, codec, replay, batch_size=settings.batch_size, max_attempts=settings.max_attempts
        )
        yield Parts(outbox, projector, replay, Verify(log, codec, GraphReader(client), outbox.beat))
    finally:
        locked.close()
        client.close()
        engine.dispose()


def _holder() -> str:
    """Who we are: no other process is ever called the same, not even one with our process id after us."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
