"""`/health` says whether the projector does its work, and if not, why; `/metrics` has the figures."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from pydantic_core import to_jsonable_python

from app.cli.address import host_refusal
from app.domain.errors import LogUnavailable, RuleBroken
from projector.status import Status, complaints


class Beat:
    """When the last cycle ended, by the monotonic clock: a projector that is stuck in a cycle does not beat."""

    def __init__(self, stuck_after: timedelta) -> None:
        self._stuck_after = stuck_after
        self._last = time.monotonic()

    def __call__(self) -> None:
        self._last = time.monotonic()

    def complaints(self) -> Sequence[str]:
        silent_for = time.monotonic() - self._last
        if silent_for <= self._stuck_after.total_seconds():
            return ()
        return (f"this projector has not ended a cycle for {silent_for:.0f} s: it is stuck; restart it",)


def application(
    beat: Beat, read_status: Callable[[], Status], registry: CollectorRegistry, *, stuck_after: timedelta
) -> WSGIApplication:
    metrics: WSGIApplication = make_wsgi_app(registry)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match environ.get("PATH_INFO"):
            case "/metrics":
                return metrics(environ, start_response)
            case "/health":
                return _json(start_response, *_health(beat, read_status, stuck_after))
            case _:
                return _json(start_response, "404 Not Found", {"error": "there is only /health and /metrics here"})

    return answer


@contextmanager
def serving(application: WSGIApplication, host: str, port: int) -> Iterator[str]:
    """Serve in threads of its own; gives the URL. Raises `RuleBroken` where host or port cannot be had."""
    try:
        server = make_server(host, port, application, server_class=_Server, handler_class=_Handler)
    except (OSError, UnicodeError) as error:
        refusal = host_refusal(host)
        if refusal is None:
            where, reason = f"{host}:{port}", getattr(error, "strerror", None)
            advice = "set RETOLD_PROJECTOR_PORT to a free port, or to 0"
        else:
            where, reason = host, refusal
            advice = "set RETOLD_PROJECTOR_HOST to an address of this machine"
        raise RuleBroken(f"cannot listen on {where} ({reason}); {advice}") from error
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _health(beat: Beat, read_status: Callable[[], Status], stuck_after: timedelta) -> tuple[str, dict[str, Any]]:
    found = list(beat.complaints())
    status = None
    try:
        status = read_status()
        found += complaints(status, stuck_after=stuck_after)
    except LogUnavailable as error:
        found.append(str(error))
    body = {
        "status": "failing" if found else "ok",
        "complaints": found,
        "projection": to_jsonable_python(status),
    }
    return ("503 Service Unavailable" if found else "200 OK", body)


def _json(start_response: StartResponse, status: str, body: dict[str, Any]) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "application/json; charset=utf-8")])
    return [json.dumps(body, ensure_ascii=False).encode() + b"\n"]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # A port that another process still uses must be an error, not shared with it.
    allow_reuse_port = False


class _Handler(WSGIRequestHandler):
    timeout = 10

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: whoever scrapes every few seconds is no news."""
