"""The command `retold` in tests: inside the test where that is enough, as a process where it must be one."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli.main import command_line, run
from app.infrastructure.graph.endpoint import GraphEndpoint
from tests.servers import PROJECT

Environment = Mapping[str, str]
ENDS_WITHIN = 60


@dataclass(frozen=True)
class Answer:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def is_one_line(self, *fragments: str) -> bool:
        """One line on standard error with these fragments, nothing else, no stack trace."""
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert len(self.err.strip().splitlines()) == 1
        assert "Traceback" not in self.err
        for each in fragments:
            assert each in self.err
        return True


Cli = Callable[..., Answer]


def cli_in_this_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command line as the console script does, without the second that a process takes to start."""

    def answer(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["retold", *words])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capsys.readouterr()
        code = ended.value.code
        return Answer(code if isinstance(code, int) else 0, out, err)

    return answer


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command, those of other packages included."""
    yield from _leaves(typer.main.get_command(command_line()), ())


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path
        return
    for name, each in below.items():
        yield from _leaves(each, (*path, name))


def settings_of(database: str | None = None, graph: GraphEndpoint | None = None) -> dict[str, str]:
    """The environment that points a command at these servers."""
    given = {} if database is None else {"RETOLD_DATABASE_URL": database}
    if graph is None:
        return given
    return given | {
        "RETOLD_GRAPH_URL": graph.url,
        "RETOLD_GRAPH_USER": graph.user,
        "RETOLD_GRAPH_PASSWORD": graph.password,
        "RETOLD_GRAPH_DATABASE": graph.database,
    }


class Process:
    """A `retold` that runs while its test looks at it."""

    def __init__(self, words: tuple[str, ...], environment: Environment, log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "app.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **environment},
                cwd=PROJECT,
            )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, words: str, within: float = ENDS_WITHIN) -> None:
        """Return once it has said `words`."""
        eventually(lambda: words in self.said or self.popen.poll() is not None, within, lambda: self.said)
        assert words in self.said, self.said

    def end(self, with_signal: signal.Signals = signal.SIGINT, within: float = ENDS_WITHIN) -> int:
        self.popen.send_signal(with_signal)
        return self.popen.wait(within)


@contextlib.contextmanager
def process(*words: str, environment: Environment, log: Path) -> Iterator[Process]:
    """Ended in order, if its test has not done so."""
    started = Process(words, environment, log)
    try:
        yield started
    finally:
        if started.popen.poll() is None:
            started.end(signal.SIGTERM)


def eventually(
    reached: Callable[[], object], within: float = ENDS_WITHIN, state: Callable[[], object] = lambda: ""
) -> None:
    deadline = time.monotonic() + within
    while not reached():
        assert time.monotonic() < deadline, f"not within {within} s: {state()}"
        time.sleep(0.05)
