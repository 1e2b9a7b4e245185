"""A projector that kills its own process with SIGKILL at a given moment: `python -m tests.faults.dying_projector`.

    at SESSION      before it writes anything of this session, each time
    after           after the graph has committed its first batch, and before that is marked
    replay NUMBER   in a replay, before it writes its batch of this number

It ends well once nothing is pending.
"""

import os
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta

from app.infrastructure.embedded.servers import resolve
from app.infrastructure.logging import configure_logging
from app.settings import load_settings
from projector.fold import Graph
from projector.replay import Rebuild
from tests.projecting import Interfering, projecting, told_of


def main(arguments: Sequence[str]) -> None:
    settings = load_settings()
    configure_logging(settings)
    servers = resolve(settings)
    chosen = {name: getattr(settings, name) for name in settings.model_fields_set - {"database_url", "graph_url"}}
    with projecting(
        servers.database_url, servers.graph, writer=lambda real: _dying(real, arguments), **chosen
    ) as parts:
        if arguments[0] == "replay":
            with parts.projector.exclusively(timedelta(seconds=30)):
                parts.replay()
        else:
            parts.projector.drain()


def _dying(writer: Rebuild, arguments: Sequence[str]) -> Rebuild:
    written: list[Graph] = []

    def before(batch: Graph) -> None:
        match arguments:
            case ["at", session] if told_of(batch, session):
                _die()
            case ["replay", number] if len(written) + 1 == int(number):
                _die()
            case _:
                written.append(batch)

    def after(_: Graph) -> None:
        if arguments[0] == "after":
            _die()

    return Interfering(writer, before, after)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
