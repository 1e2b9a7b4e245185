"""The home of the embedded servers: one folder with their data, logs, passwords and where they listen."""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from app.domain.errors import Conflict, RetoldError, RuleBroken, Unavailable

HOST = "127.0.0.1"
OUR_PORTS = range(20_000, 32_000)
LOCK_PATIENCE = timedelta(milliseconds=300)
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
NO_SUCH_PLACE = {errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EISDIR}
NOT_OURS = {errno.EACCES, errno.EPERM, errno.EROFS}


@dataclass(frozen=True)
class RunningServer:
    """What `servers.json` says of one server: no secrets, for the passwords have files of their own."""

    pid: int
    port: int


class Home:
    """A folder that one `retold up` at a time owns and every other command may read."""

    def __init__(self, path: Path) -> None:
        # Absolute at once: a later change of the working directory must not move the home.
        self.path = Path(os.path.abspath(path.expanduser()))

    @property
    def shown(self) -> str:
        """The path as every message and every format can hold it, also where its name is not UTF-8."""
        return str(self.path).encode(errors="backslashreplace").decode()

    def create(self) -> None:
        """Make the folder, for its owner only; RuleBroken or Unavailable says why it cannot be."""
        if self.shown != str(self.path):
            # Java has no form for it, nor has JSON.
            raise RuleBroken(f"{self.shown} is not a name in UTF-8: set RETOLD_HOME to another folder.")
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            _prove_writable(self.path)

    def folder(self, name: str) -> Path:
        """A folder inside, made on first use, for its owner only."""
        path = self.path / name
        with explained(path):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Own the home until the block ends or the process dies; Conflict names the process that owns it."""
        self.create()
        descriptor = self._claim()
        try:
            # What an owner that was killed left in the list is not true any more.
            (self.path / "servers.json").unlink(missing_ok=True)
            yield
        finally:
            os.close(descriptor)

    def owned(self) -> bool:
        """Whether a living process holds the lock."""
        with explained(self.path), contextlib.suppress(FileNotFoundError), (self.path / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def secret(self, name: str) -> str:
        """The password of that name, made on first use and the same ever after."""
        path = self._secret_path(name)
        with explained(path):
            if not path.exists():
                write_file(self.folder("secrets") / name, secrets.token_urlsafe(24))
            return path.read_text().strip()

    def known_secret(self, name: str) -> str | None:
        """The password of that name, or None where no server has been started yet."""
        path = self._secret_path(name)
        with explained(path):
            return path.read_text().strip() if path.exists() else None

    def running(self, name: str) -> RunningServer | None:
        """Where the server of that name listens; None when it is not there, also when its entry is a left-over.

        While the home has an owner, a server that is down counts too: its owner brings it back at the same place.
        """
        server = self._servers().get(name)
        if server and (self.owned() or (psutil.pid_exists(server.pid) and listens(server.port))):
            return server
        return None

    def record(self, name: str, server: RunningServer) -> None:
        """Tell other commands where a server listens."""
        self._write_servers({**self._servers(), name: server})

    def forget(self, name: str) -> None:
        """Take a stopped server out of the list; with the last one the list goes too."""
        self._write_servers({key: server for key, server in self._servers().items() if key != name})

    def _claim(self) -> int:
        path = self.path / "lock"
        deadline = time.monotonic() + LOCK_PATIENCE.total_seconds()
        while (descriptor := lock_file(path)) is None:
            # `owned` holds the lock for a moment, which is not to be taken for an owner.
            if time.monotonic() > deadline:
                raise Conflict(
                    f"{self.path} is in use by process {_pid_in(path)}: "
                    f"stop that one first, or set RETOLD_HOME to another folder."
                )
            time.sleep(0.02)
        return descriptor

    def _secret_path(self, name: str) -> Path:
        return self.path / "secrets" / name

    def _servers(self) -> dict[str, RunningServer]:
        # A list that is missing, unreadable or torn means that nothing is known to run.
        try:
            entries = json.loads((self.path / "servers.json").read_text())
            return {name: RunningServer(**entry) for name, entry in entries.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _write_servers(self, servers: dict[str, RunningServer]) -> None:
        path = self.path / "servers.json"
        with explained(path):
            if servers:
                write_file(path, json.dumps({name: asdict(server) for name, server in servers.items()}, indent=2))
            else:
                path.unlink(missing_ok=True)


def write_file(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def lock_file(path: Path) -> int | None:
    """A descriptor that holds the lock on that file and has our pid in it; None when another process holds it.

    The lock belongs to the open file, not to the name: it ends with the last process that has it open, so a file
    that a killed process left behind locks nobody out.
    """
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        write_pid(descriptor, os.getpid())
        return descriptor


def write_pid(descriptor: int, pid: int) -> None:
    """Say in a locked file which process the lock stands for."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{pid}\n".encode(), 0)


def _pid_in(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().strip() or "unknown"
    return "unknown"


def _prove_writable(folder: Path) -> None:
    # Asked by writing: permissions, a read-only mount and a full disk all show here and nowhere earlier.
    probe = folder / ".writable"
    try:
        write_file(probe, "yes")
    finally:
        probe.unlink(missing_ok=True)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses into one sentence that says what to do."""
    try:
        yield
    except OSError as error:
        raise _explanation(path, error) from error


def _explanation(path: Path, error: OSError) -> RetoldError:
    if error.errno in DISK_FULL:
        return Unavailable(f"The disk that holds {path} is full: free some space, or set RETOLD_HOME to another disk.")
    if error.errno in NOT_OURS:
        return RuleBroken(f"{path} cannot be written ({error.strerror}): set RETOLD_HOME to a folder of your own.")
    if error.errno in {errno.EEXIST, errno.ENOTDIR}:
        return RuleBroken(f"{path} is not a folder: remove what is there, or set RETOLD_HOME to another folder.")
    if error.errno in NO_SUCH_PLACE:
        return RuleBroken(f"{path} cannot be made ({error.strerror}): set RETOLD_HOME to another folder.")
    return Unavailable(f"{path} cannot be used ({error.strerror}): set RETOLD_HOME to another folder.")


def listens(port: int) -> bool:
    """Whether anything on this machine accepts connections on that port."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def free_port(but: int = 0) -> int:
    """A port that nobody listens on right now, and not the one that is meant for somebody else.

    Taken from below the range that outgoing connections draw theirs from: a client that keeps knocking at a server
    that is down could otherwise be given that server's own port, and keep it.
    """
    for _ in range(100):
        port = OUR_PORTS.start + secrets.randbelow(len(OUR_PORTS))
        if port != but and not _refusal(port):
            return port
    raise Unavailable(f"There is no free port from {OUR_PORTS.start} to {OUR_PORTS.stop} on {HOST}: name one yourself.")


def usable_port(wanted: int, setting: str) -> int:
    """The wanted port, or any free one for 0; RuleBroken when the wanted one is taken."""
    if not wanted:
        return free_port()
    if refusal := _refusal(wanted):
        raise RuleBroken(
            f"Port {wanted} on {HOST} cannot be used ({refusal.strerror}): "
            f"stop what uses it, or set {setting} to another port or to 0 for any free one."
        ) from refusal
    return wanted


def _refusal(port: int) -> OSError | None:
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT after a restart is not taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error
    return None
