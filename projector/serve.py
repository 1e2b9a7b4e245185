"""The projector as a process: cycles, hints, health and metrics, until SIGTERM or Ctrl-C."""

import signal
import threading
from contextlib import suppress

import structlog

from app.domain.errors import LogUnavailable
from app.infrastructure.embedded.servers import Servers
from app.settings import Settings
from projector.bootstrap import assemble
from projector.health import Beat, application, serving
from projector.metrics import Metrics
from projector.run import Listener, Loop
from projector.status import Outlook

log = structlog.get_logger()


def serve(servers: Servers, settings: Settings) -> None:
    """Returns after the stop was asked for; the cycle under way ends first, which takes the graph's timeout at most."""
    stopping = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stopping.set())
    ask = Outlook(servers.database_url, settings.database_connect_timeout).status
    beat, metrics = Beat(settings.stuck_after), Metrics(ask)
    answers = application(beat, ask, metrics.registry, stuck_after=settings.stuck_after)
    with (
        serving(answers, settings.projector_host, settings.projector_port) as url,
        assemble(servers, settings, stopping=stopping.is_set, beat=beat) as parts,
    ):
        log.info("projector started", health=f"{url}/health", metrics=f"{url}/metrics")
        loop = Loop(
            parts.projector.run_once,
            interval=settings.poll_interval,
            stopping=stopping,
            observe=metrics.observe,
            beat=beat,
        )
        listener = Listener(servers.database_url, loop.hint, stopping).start() if settings.hints else None
        loop.run()
        if listener is not None:
            listener.join()
        with suppress(LogUnavailable):
            # Without a connection there is no lock to give back either.
            parts.outbox.release()
    log.info("projector stopped")
