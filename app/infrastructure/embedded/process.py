"""A server as a child process: its log file, its lock, its end, and the left-over of a parent that was killed."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import psutil

from app.domain.errors import Unavailable
from app.infrastructure.embedded.home import Home, explained, lock_file, write_pid
from app.infrastructure.embedded.last_words import disk_full, reason

LARGEST_TAIL = 100_000
LITTLE_SPACE = 100_000
LARGEST_LOG = 10_000_000
STOP_GRACE = timedelta(seconds=15)
JAVA_LOCALE = {"LC_ALL": "C.UTF-8"}
"""In a locale without UTF-8 Java finds no file with other letters than ASCII in its path."""


class ServerProcess:
    """One child process at a time under one name in one home.

    The child inherits a locked file and nobody else keeps it open, so the lock tells exactly whether any process of
    that server still lives, also for a later parent. Started from a thread, a child may end with that thread
    (Linux ties the death signal to it): start servers from a thread that outlives them.
    """

    def __init__(self, home: Home, name: str, stop_signal: signal.Signals = signal.SIGTERM) -> None:
        self.home = home
        self.name = name
        self._stop_signal = stop_signal
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def log_path(self) -> Path:
        return self.home.path / "log" / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def claim(self) -> int:
        """A descriptor with the server's lock; a server that a killed parent left behind is stopped first."""
        path = self.home.folder("run") / f"{self.name}.pid"
        deadline = time.monotonic() + STOP_GRACE.total_seconds()
        while (descriptor := lock_file(path)) is None:
            late = time.monotonic() > deadline - STOP_GRACE.total_seconds() / 2
            _signal_left_over(path, signal.SIGKILL if late else self._stop_signal)
            if time.monotonic() > deadline:
                raise Unavailable(f"An earlier {self.name} server on {self.home.path} does not end: stop it by hand.")
            time.sleep(0.1)
        return descriptor

    def spawn(self, argv: Sequence[str], *, claim: int, cwd: Path, env: Mapping[str, str], stdin: bytes = b"") -> None:
        """Start the child with `stdin` as its first input; it sees the end of its input when this process is gone."""
        self.kill()
        self.home.folder("log")
        with open_log(self.log_path) as log:
            self._log_start = os.fstat(log).st_size
            child = subprocess.Popen(  # noqa: S603 (our own argument list, no shell)
                list(argv),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=cwd,
                env=dict(env),
                pass_fds=(claim,),
                # Ctrl-C in the terminal is for the parent alone, which stops its servers in order.
                start_new_session=True,
            )
        self._child = child
        with explained(self.home.path):
            write_pid(claim, child.pid)
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(stdin)

    def wait_until(self, ready: Callable[[], bool], within: timedelta) -> None:
        """Return once `ready()`; Unavailable with the reason when the child dies or takes too long."""
        deadline = time.monotonic() + within.total_seconds()
        while not ready():
            if not self.alive():
                self.kill()
                raise self.failure("ended while it was starting", self._said())
            if time.monotonic() > deadline:
                self.kill()
                raise self.failure(f"was not ready within {within.total_seconds():.0f} s", self._said())
            time.sleep(0.05)

    def stop(self) -> None:
        """End the child in good order; killed only when it does not end by itself."""
        if self._child is None:
            return
        self._close_input()
        self._child.send_signal(signal.SIGCONT)
        end(self._child, self._stop_signal)
        self._child = None

    def kill(self) -> None:
        """End the child as `kill -9` does."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._close_input()
            self._child = None

    def pause(self) -> None:
        """Freeze the child: its connections stay open and nothing answers."""
        assert self._child is not None
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen child go on."""
        assert self._child is not None
        self._child.send_signal(signal.SIGCONT)

    def failure(self, what: str, said: str) -> Unavailable:
        """The error that `what` befell the server, with the reason out of what it `said`."""
        if disk_full(said) or self._disk_is_full():
            return Unavailable(
                f"The disk that holds {self.home.path} is full: free some space, or set RETOLD_HOME to another disk "
                f"(the {self.name} server {what}; see {self.log_path})."
            )
        why = reason(said)
        return Unavailable(f"The {self.name} server {what}{f' ({why})' if why else ''}: look into {self.log_path}.")

    def _said(self) -> str:
        """What the child has written, without what earlier ones did."""
        with contextlib.suppress(OSError), self.log_path.open("rb") as log:
            log.seek(max(self._log_start, os.fstat(log.fileno()).st_size - LARGEST_TAIL))
            return log.read().decode(errors="replace")
        return ""

    def _disk_is_full(self) -> bool:
        # Its log may be on the same disk, and then the line that says so is missing.
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self.home.path).free < LITTLE_SPACE
        return False

    def _close_input(self) -> None:
        if self._child and self._child.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()


def end(child: subprocess.Popen[bytes], by: signal.Signals) -> None:
    """End a child in good order, by this signal; killed only when it does not end by itself."""
    child.send_signal(by)
    try:
        child.wait(STOP_GRACE.total_seconds())
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextlib.contextmanager
def open_log(path: Path) -> Iterator[int]:
    """A descriptor that appends to a log file only its owner can read; a large one makes room first."""
    with explained(path):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size > LARGEST_LOG:
                path.replace(path.with_suffix(".old"))
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def bound_to_parent(argv: Sequence[str], death_signal: str) -> list[str]:
    """The command, made to get a signal when its parent dies, where the operating system can do that."""
    setpriv = shutil.which("setpriv")
    return [setpriv, f"--pdeathsig={death_signal}", "--", *argv] if setpriv else list(argv)


def _signal_left_over(path: Path, what: signal.Signals) -> None:
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int(path.read_text()))
        # Only a process as old as its entry is the one that was meant: a pid may have been given to another since.
        if process.create_time() <= path.stat().st_mtime + 1:
            process.send_signal(what)
            # One that was frozen hears it only when it runs again.
            process.send_signal(signal.SIGCONT)
