"""Standard output that cannot take what a command says: full, closed, of another encoding, left by its reader."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.bootstrap import Retold, retold
from app.settings import Settings
from tests.commandline import settings_of
from tests.servers import PROJECT

WORDS = "São Tomé 🌧 – “wet”"

SHOWN: tuple[tuple[str, ...], ...] = (
    ("--help",),
    ("--version",),
    ("events",),
    ("events", "--json"),
    ("events", "--follow", "--json"),
    ("doctor",),
    ("projector", "status"),
    ("projector", "status", "--json"),
    ("projector", "parked", "list", "--json"),
)


@pytest.fixture
def product(database: str) -> Iterator[Retold]:
    with retold(database, Settings()) as product:
        product.open_session(tenant="default", session_id="s", user="user-1", project="p", agent="assistant")
        product.accept_message(tenant="default", session_id="s", message="m", text=WORDS)
        yield product


def run(
    database: str, *words: str, to: int | None = None, redirect: str = "", module: str = "app.cli", **variables: str
) -> subprocess.CompletedProcess[str]:
    """A command with its standard output at the descriptor `to`, or redirected by a shell."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-m", module, *words],
        env={**os.environ, **settings_of(database), "RETOLD_GRAPH_URL": "bolt://127.0.0.1:1", **variables},
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if to is None else to,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )


@contextmanager
def nobody_reads() -> Iterator[int]:
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_full_disk_ends_a_command_in_one_line(database: str, product: Retold, words: tuple[str, ...]) -> None:
    done = run(database, *words, redirect="> /dev/full")

    assert done.returncode == 74
    assert done.stderr.strip() == "error: standard output cannot be written (No space left on device)"


@pytest.mark.parametrize("words", [("--help",), ("events",), ("projector", "status", "--json")], ids=" ".join)
def test_a_closed_output_ends_a_command_in_one_line(database: str, product: Retold, words: tuple[str, ...]) -> None:
    done = run(database, *words, redirect=">&-")

    assert done.returncode == 74
    assert done.stderr.strip() == "error: standard output is closed"


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_reader_that_has_seen_enough_ends_a_command_silently(
    database: str, product: Retold, words: tuple[str, ...]
) -> None:
    with nobody_reads() as writer:
        done = run(database, *words, to=writer)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("redirect", ["2>&-", "2> /dev/full", "<&-"])
def test_other_streams_that_are_closed_or_full_change_no_answer(database: str, product: Retold, redirect: str) -> None:
    assert len(json.loads(run(database, "events", "--json", redirect=redirect).stdout)) == 2
    assert run(database, "evnts", redirect=redirect).returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(
    "words", [("--help",), ("events",), ("projector", "status"), ("projector", "--help")], ids=" ".join
)
def test_what_an_encoding_does_not_have_is_replaced(
    database: str, product: Retold, words: tuple[str, ...], encoding: str
) -> None:
    done = run(database, *words, PYTHONIOENCODING=encoding)

    assert done.returncode in {0, 1}
    assert done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("words", [("events", "--json"), ("events", "--after", "0", "--json")], ids=" ".join)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_whole_in_every_encoding(database: str, product: Retold, words: tuple[str, ...], encoding: str) -> None:
    done = run(database, *words, PYTHONIOENCODING=encoding)

    assert done.stdout.isascii()
    assert json.loads(done.stdout)[1]["data"]["text"] == WORDS


def test_every_program_goes_through_the_same_door(database: str) -> None:
    for module in ("projector", "benchmarks"):
        with nobody_reads() as writer:
            assert run(database, "--help", to=writer, module=module).returncode == 141
        assert run(database, "--help", redirect=">&-", module=module).returncode == 74
