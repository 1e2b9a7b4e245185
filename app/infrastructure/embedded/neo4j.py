"""A real Neo4j Community as a child process, for tests and for people without Docker (`make neo4j`)."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from app.domain.errors import RetoldError
from app.infrastructure.embedded.bolt import answers, set_first_password
from app.infrastructure.embedded.home import HOST, Home, explained, usable_port, write_file
from app.infrastructure.embedded.neo4j_jars import entry_point, fetched_jars, java_for
from app.infrastructure.embedded.process import JAVA_LOCALE, ServerProcess, bound_to_parent
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.settings import load_settings

NAME = "neo4j"
VERSION = "5.26.30"
USER = DATABASE = "neo4j"
FIRST_CREDENTIAL = "neo4j"  # what every new Neo4j comes with
CREDENTIAL = "neo4j-password"
CACHE = Path(".cache")
READY_WITHIN = timedelta(seconds=180)
OPENED = ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
# The last line makes a stop take one second and not ten; a version that does not know it must not mind.
CONFIGURATION = """\
server.bolt.listen_address={host}:{port}
server.bolt.advertised_address={host}:{port}
server.http.enabled=false
server.https.enabled=false
server.memory.pagecache.size=256m
dbms.usage_report.enabled=false
dbms.security.auth_enabled=true
db.tx_log.preallocate=false
server.config.strict_validation.enabled=false
internal.dbms.bolt.netty_server_shutdown_quiet_period=0
"""


def say(line: str) -> None:
    """One line for whoever waits in front of the terminal."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class MavenNeo4j:
    """The Neo4j of one home, with the same surface as EmbeddedGraph."""

    name = NAME

    def __init__(
        self,
        home_path: Path,
        version: str = VERSION,
        port: int = 0,
        cache: Path = CACHE,
        report: Callable[[str], None] = say,
    ) -> None:
        self.home = Home(home_path)
        self.version = version
        self.port = port
        self.database = DATABASE
        self._cache = Path(os.path.abspath(cache))
        self._report = report
        self._process = ServerProcess(self.home, NAME)

    @property
    def endpoint(self) -> GraphEndpoint:
        return GraphEndpoint(f"bolt://{HOST}:{self.port}", USER, self.password, DATABASE)

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
        """Return when Neo4j answers over Bolt; fetches its jars first where the cache has none."""
        if self.alive():
            return
        java, java_version = java_for(self.version)
        jars = fetched_jars(self.version, self._cache, self._report)
        self.home.create()
        folder = self.home.folder(f"{NAME}-{self.version}")
        claim = self._process.claim()
        try:
            self.port = usable_port(self.port, "RETOLD_BOLT_PORT")
            self._configure(folder)
            command = _command(java, java_version, jars, folder, self.version)
            self._process.spawn(bound_to_parent(command, "TERM"), claim=claim, cwd=folder, env=_environment())
        finally:
            os.close(claim)
        self._process.wait_until(self._ready, READY_WITHIN)

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def pause(self) -> None:
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def _configure(self, folder: Path) -> None:
        path = folder / "conf" / "neo4j.conf"
        with explained(path):
            path.parent.mkdir(exist_ok=True, mode=0o700)
            write_file(path, CONFIGURATION.format(host=HOST, port=self.port))

    def _ready(self) -> bool:
        return set_first_password(self.endpoint, FIRST_CREDENTIAL) and answers(self.endpoint)


def _command(java: str, java_version: int, jars: Path, folder: Path, version: str) -> list[str]:
    # Netty's native parts ask for it from Java 24 on, and earlier ones warn of an option they do not know.
    native = ["--enable-native-access=ALL-UNNAMED"] if java_version >= 24 else []
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    return [
        java,
        *("-Xms256m", "-Xmx1g", "-XX:+UseG1GC", *opened, *native),
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dlog4j2.disable.jmx=true",
        *("-cp", f"{jars}/*", entry_point(version, jars)),
        f"--home-dir={folder}",
        f"--config-dir={folder / 'conf'}",
        "--console-mode",
    ]


def _environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("RETOLD_", "NEO4J_"))}
    return {**ours, **JAVA_LOCALE}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make neo4j", description="Start a Neo4j Community until Ctrl-C.")
    parser.add_argument("--version", default=VERSION, help=f"the version of Neo4j, such as {VERSION}")
    arguments = parser.parse_args()
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    try:
        settings = load_settings()
        _serve(MavenNeo4j(settings.home, arguments.version, settings.bolt_port), over)
    except RetoldError as error:
        say(str(error))
        return 7
    return 0


def _serve(server: MavenNeo4j, over: threading.Event) -> None:
    try:
        server.start()
        say(f"Neo4j {server.version} listens on {server.url}, user {server.user}. In another terminal:")
        say(f"  export RETOLD_GRAPH_URL={server.url} RETOLD_GRAPH_USER={server.user}")
        say(f'  export RETOLD_GRAPH_PASSWORD="$(cat {server.home.path / "secrets" / CREDENTIAL})"')
        say("Ctrl-C stops it.")
        while server.alive() and not over.wait(0.5):
            pass
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
