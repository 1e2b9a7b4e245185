"""The embedded graph: ArcadeDB with its Bolt door, as a child process that only this machine and our password reach."""

import importlib.util
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

from app.domain.errors import RuleBroken
from app.infrastructure.embedded.bolt import answers
from app.infrastructure.embedded.home import HOST, Home, RunningServer, free_port, usable_port
from app.infrastructure.embedded.process import JAVA_LOCALE, ServerProcess
from app.infrastructure.graph.endpoint import GraphEndpoint

NAME = "graph"
USER = "root"
DATABASE = "retold"
CREDENTIAL = "graph-password"
HEAP = "1g"
READY_WITHIN = timedelta(seconds=90)


class EmbeddedGraph:
    """The server of one home; the owner of the home's lock starts and stops it."""

    name = NAME

    def __init__(self, home_path: Path, port: int = 0, database: str = DATABASE, heap: str = HEAP) -> None:
        self.home = Home(home_path)
        self.port = port
        self.database = database
        self._heap = heap
        self._process = ServerProcess(self.home, NAME)

    @property
    def endpoint(self) -> GraphEndpoint:
        return embedded_endpoint(self.home.secret(CREDENTIAL), self.port, self.database)

    @property
    def url(self) -> str:
        return self.endpoint.url

    @property
    def user(self) -> str:
        return USER

    @property
    def password(self) -> str:
        return self.home.secret(CREDENTIAL)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self._process.log_path

    def alive(self) -> bool:
        return self._process.alive()

    def start(self) -> None:
        """Return when the graph answers over Bolt; a second start after a stop or a kill keeps port and URL."""
        if self.alive():
            return
        _refuse_without_wheel()
        self.home.create()
        folder = self.home.folder(NAME)
        claim = self._process.claim()
        try:
            # Users are made from the password file at every start: a torn or foreign list must not lock us out.
            (folder / "config" / "server-users.jsonl").unlink(missing_ok=True)
            self.port = usable_port(self.port, "RETOLD_BOLT_PORT")
            self._process.spawn(
                [sys.executable, "-m", "app.infrastructure.embedded.graph_process"],
                claim=claim,
                cwd=folder,  # ArcadeDB writes its `log/` wherever it is started
                env=_environment(),
                stdin=self._orders(folder),
            )
        finally:
            os.close(claim)
        self._process.wait_until(lambda: answers(self.endpoint), READY_WITHIN)
        assert self.pid is not None
        self.home.record(NAME, RunningServer(self.pid, self.port))

    def stop(self) -> None:
        if self._process.pid is not None:
            self._process.stop()
            self.home.forget(NAME)

    def kill(self) -> None:
        self._process.kill()

    def pause(self) -> None:
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def _orders(self, folder: Path) -> bytes:
        # Over standard input, for arguments and environment can be read by every process of the machine's list.
        orders = {
            "root": str(folder),
            "password": self.password,
            "database": self.database,
            "bolt_port": self.port,
            "http_port": free_port(but=self.port),
            "heap": self._heap,
        }
        return json.dumps(orders).encode() + b"\n"


def embedded_endpoint(password: str, port: int, database: str = DATABASE) -> GraphEndpoint:
    """Where an embedded graph listens."""
    return GraphEndpoint(f"bolt://{HOST}:{port}", USER, password, database)


def _environment() -> dict[str, str]:
    # Settings and passwords of our own are none of the server's business.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("RETOLD_")}
    return {**ours, **JAVA_LOCALE}


def _refuse_without_wheel() -> None:
    if importlib.util.find_spec("arcadedb_embedded") is None:
        raise RuleBroken(
            "The embedded graph is not installed or does not exist for this platform: "
            "pip install 'retold[embedded]', or set RETOLD_GRAPH_URL to a Neo4j of your own."
        )
