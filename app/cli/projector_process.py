"""The projector as a child process: `python -m projector`, told by its environment where log and graph are."""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from app.cli.address import http_url
from app.domain.errors import Unavailable
from app.infrastructure.embedded.servers import Servers
from app.infrastructure.embedded.supervisor import ProcessChild

READY_WITHIN: Final = timedelta(seconds=30)
ANSWERS_WITHIN: Final = timedelta(seconds=5)
LOOK_AGAIN: Final = timedelta(milliseconds=50)


class ProjectorProcess:
    """A child for the supervisor; it counts as started once it answers over HTTP."""

    name = "projector"

    def __init__(self, environment: Mapping[str, str], *, host: str, port: int, log_path: Path) -> None:
        self.url = http_url(host, port)
        self._log_path = log_path
        self._child = ProcessChild(
            self.name,
            (sys.executable, "-m", "projector"),
            {**environment, "RETOLD_PROJECTOR_PORT": str(port)},
            log_path,
        )

    def start(self) -> None:
        self._child.start()
        deadline = time.monotonic() + READY_WITHIN.total_seconds()
        while health(self.url) is None:
            if not self._child.alive():
                raise Unavailable(f"The projector ended while it was starting: {self._last_words()}")
            if time.monotonic() > deadline:
                raise Unavailable(f"The projector does not answer on {self.url}/health; its log is {self._log_path}")
            time.sleep(LOOK_AGAIN.total_seconds())

    def stop(self) -> None:
        self._child.stop()

    def alive(self) -> bool:
        return self._child.alive()

    def _last_words(self) -> str:
        lines = [line for line in self._log_path.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"it said nothing; its log is {self._log_path}"


def health(url: str) -> Sequence[str] | None:
    """What is wrong with the projector that serves at `url`, nothing if all is well, None where nobody answers."""
    # The proxy that a user's environment may name is for the outside world.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{url}/health", timeout=ANSWERS_WITHIN.total_seconds()) as answer:
            return list(json.load(answer)["complaints"])
    except urllib.error.HTTPError as error:
        with error:
            return list(json.load(error)["complaints"])
    except (OSError, ValueError):
        return None


def environment_of(servers: Servers) -> dict[str, str]:
    """The settings with which another process finds the same servers; never for a command line, which all can read."""
    return {
        "RETOLD_DATABASE_URL": servers.database_url,
        "RETOLD_GRAPH_URL": servers.graph.url,
        "RETOLD_GRAPH_USER": servers.graph.user,
        "RETOLD_GRAPH_PASSWORD": servers.graph.password,
        "RETOLD_GRAPH_DATABASE": servers.graph.database,
    }
