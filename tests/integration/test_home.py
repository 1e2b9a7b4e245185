"""The home of the embedded servers: who may read it, who owns it, and what is said when it cannot be used."""

import errno
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.errors import Conflict, RuleBroken, Unavailable
from app.infrastructure.embedded.home import Home, RunningServer, free_port, usable_port
from app.infrastructure.embedded.servers import resolve, resolve_graph
from app.settings import Settings

HOLDER = """
import sys
from pathlib import Path
from app.infrastructure.embedded.home import Home
with Home(Path(sys.argv[1])).lock():
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that owns the home `tmp_path/home`."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "home")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_enter_the_home_and_read_its_passwords(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.secret("graph-password")

    assert mode(home.path) == 0o700
    assert mode(home.path / "secrets") == 0o700
    assert mode(home.path / "secrets" / "graph-password") == 0o600


def test_a_password_is_made_once_and_kept(tmp_path: Path) -> None:
    first = Home(tmp_path).secret("graph-password")

    assert len(first) >= 32
    assert Home(tmp_path).secret("graph-password") == first
    assert Home(tmp_path).secret("postgres-password") != first


def test_a_relative_home_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = Home(Path("here"))
    monkeypatch.chdir("/")

    assert home.path == tmp_path / "here"


def test_a_second_start_on_the_same_home_names_the_holder(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    with pytest.raises(Conflict, match=f"in use by process {holder.pid}"), Home(tmp_path / "home").lock():
        pytest.fail("two processes own one home")


def test_the_lock_ends_with_the_process_that_held_it(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    holder.kill()
    holder.wait()

    with Home(tmp_path / "home").lock():
        assert (tmp_path / "home" / "lock").read_text() == f"{os.getpid()}\n"


def test_a_stale_lock_file_locks_nobody_out(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")

    with Home(tmp_path).lock():
        pass


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    with Home(tmp_path).lock():
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    with child, Home(tmp_path).lock():
        child.kill()


@pytest.mark.parametrize("below", ["taken", "taken/home"])
def test_a_file_in_the_way_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "taken").write_text("")

    with pytest.raises(RuleBroken, match=r"taken.* is not a folder"):
        Home(tmp_path / below).create()


def test_a_home_whose_name_is_not_utf_8_is_refused_in_one_printable_line(tmp_path: Path) -> None:
    with pytest.raises(RuleBroken, match=r"h\\udcffme is not a name in UTF-8: set RETOLD_HOME to another folder\.$"):
        Home(tmp_path / "h\udcffme").create()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Unavailable, match=r"h\\udcffme: start it with"):
        resolve(Settings(home=tmp_path / "h\udcffme"))


def test_a_home_of_somebody_else_is_refused_with_what_to_do(tmp_path: Path) -> None:
    _refused_as_another_user(tmp_path, "cannot be written .*set RETOLD_HOME")


def _refused_as_another_user(folder: Path, pattern: str) -> None:
    if os.geteuid() == 0:
        os.chown(folder, 1, 1)
        uid = 65534
    else:
        folder.chmod(0o500)
        uid = os.geteuid()
    code = (
        "import os, re, sys; from pathlib import Path; from app.domain.errors import RuleBroken\n"
        "from app.infrastructure.embedded.home import Home\n"
        f"os.setuid({uid}) if os.geteuid() == 0 else None\n"
        f"try: Home(Path({str(folder)!r})).create()\n"
        f"except RuleBroken as error: sys.exit(0 if re.search({pattern!r}, str(error)) else str(error))\n"
        "sys.exit('it was accepted')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("number", "error", "what"),
    [
        (errno.ENOSPC, Unavailable, "is full: free some space"),
        (errno.EDQUOT, Unavailable, "is full: free some space"),
        (errno.EROFS, RuleBroken, "cannot be written"),
        (errno.EIO, Unavailable, "cannot be used"),
    ],
)
def test_a_disk_that_refuses_is_explained_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], what: str
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(error, match=what):
        Home(tmp_path / "home").create()
    assert list((tmp_path / "home").iterdir()) == []


def test_running_servers_are_found_and_left_overs_are_not(tmp_path: Path) -> None:
    home = Home(tmp_path)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    home.record("postgres", RunningServer(os.getpid(), port))
    home.record("graph", RunningServer(2**22 + 1, port))

    assert home.running("postgres") == RunningServer(os.getpid(), port)
    assert home.running("graph") is None
    assert mode(tmp_path / "servers.json") == 0o600
    listener.close()
    assert home.running("postgres") is None


def test_a_server_that_its_owner_will_bring_back_counts_as_there(
    tmp_path: Path, holder: "subprocess.Popen[str]"
) -> None:
    home = Home(tmp_path / "home")
    home.record("graph", RunningServer(2**22 + 1, free_port()))

    assert home.running("graph") is not None
    holder.kill()
    holder.wait()
    assert home.running("graph") is None


def test_a_new_owner_forgets_the_servers_of_the_last_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.record("graph", RunningServer(os.getpid(), 1))

    with home.lock():
        assert home.running("graph") is None


def test_the_list_of_servers_goes_with_the_last_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.record("postgres", RunningServer(1, 2))
    home.record("graph", RunningServer(3, 4))

    home.forget("postgres")
    assert json.loads((tmp_path / "servers.json").read_text()) == {"graph": {"pid": 3, "port": 4}}
    home.forget("graph")
    assert not (tmp_path / "servers.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"graph": 1}', '{"graph": {"pid": 1}}'])
def test_a_torn_list_of_servers_means_that_nothing_runs(tmp_path: Path, text: str) -> None:
    (tmp_path / "servers.json").write_text(text)

    assert Home(tmp_path).running("graph") is None


def test_without_servers_and_urls_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"No PostgreSQL server .*`retold up`, or set RETOLD_DATABASE_URL"):
        resolve(Settings(home=tmp_path))
    with pytest.raises(Unavailable, match=r"No graph server .*`retold up`, or set RETOLD_GRAPH_URL"):
        resolve_graph(Settings(home=tmp_path), Home(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_servers_of_the_settings_come_first(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "home": tmp_path,
            "database_url": "postgresql://me:pw@db/retold",
            "graph_url": "bolt://graph:7687",
            "graph_password": "hush",
        }
    )

    servers = resolve(settings)

    assert servers.database_url == "postgresql://me:pw@db/retold"
    assert (servers.graph.url, servers.graph.user, servers.graph.database) == ("bolt://graph:7687", "neo4j", "neo4j")
    assert servers.graph.password == "hush"
    assert "hush" not in repr(servers)
    assert "pw" not in repr(servers)


def test_a_port_in_use_is_named_with_its_setting() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(RuleBroken, match=f"Port {listener.getsockname()[1]} .*RETOLD_BOLT_PORT"),
    ):
        usable_port(listener.getsockname()[1], "RETOLD_BOLT_PORT")
    assert usable_port(0, "RETOLD_BOLT_PORT") > 0
    port = free_port()
    assert usable_port(port, "RETOLD_BOLT_PORT") == port
