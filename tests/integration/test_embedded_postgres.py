"""The embedded PostgreSQL: ready when it says so, durable, and reached by its passwords alone."""

import contextlib
import importlib.util
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from app.domain.errors import RuleBroken, Unavailable
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.postgres import EmbeddedPostgres


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path / "home")
    try:
        server.start()
        yield server
    finally:
        server.stop()


def ask(url: str, query: str) -> object:
    with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
        cursor = connection.execute(query)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("listen_addresses", "127.0.0.1"),
        ("server_encoding", "UTF8"),
        ("TimeZone", "UTC"),
    ],
)
def test_commits_are_durable_and_nobody_else_is_let_in(database_url: str, setting: str, value: str) -> None:
    if os.environ.get("RETOLD_TEST_DATABASE_URL"):
        pytest.skip("the server of the environment has settings of its own")
    assert ask(database_url, f"SHOW {setting}") == value


def test_the_application_owns_its_database_and_is_no_superuser(server: EmbeddedPostgres) -> None:
    assert ask(server.url, "SELECT current_user || '@' || current_database()") == "retold@retold"
    assert ask(server.url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    ask(server.url, "CREATE TABLE t (v vector(3))")
    ask(server.url, "CREATE EXTENSION IF NOT EXISTS vector")
    assert ask(server.url, "SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 1


def test_a_database_that_the_application_makes_has_vectors_too(bare_database: str) -> None:
    assert ask(bare_database, "SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 1


def test_a_wrong_password_is_refused(server: EmbeddedPostgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.url.replace(server.home.secret("postgres-password"), "wrong"))


def test_data_url_and_port_outlive_a_stop(server: EmbeddedPostgres) -> None:
    url = server.url
    ask(url, "CREATE TABLE kept AS SELECT 1 AS n")

    server.stop()
    assert not server.alive()
    assert Home(server.home.path).running("postgres") is None
    server.start()

    assert server.url == url
    assert ask(url, "SELECT n FROM kept") == 1


def test_its_files_are_closed_to_others(server: EmbeddedPostgres) -> None:
    data = server.home.path / "postgres" / "data"

    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.log_path.stat().st_mode) == 0o600
    assert server.home.secret("postgres-password") not in server.log_path.read_text()


def test_no_password_is_in_arguments_or_environment(server: EmbeddedPostgres) -> None:
    assert server.pid is not None
    process = psutil.Process(server.pid)
    shown = " ".join(process.cmdline()) + str(process.environ())

    assert server.home.secret("postgres-password") not in shown
    assert server.home.secret("postgres-superuser-password") not in shown


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user")
def test_root_has_it_run_by_another_user_below_folders_that_only_root_may_enter(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = EmbeddedPostgres(closed / "home")
    try:
        server.start()
        assert server.pid is not None
        assert psutil.Process(server.pid).uids().real != 0
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    finally:
        server.stop()


def test_an_initialisation_that_was_killed_leaves_nothing_half_done(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "postgres"
    (folder / "draft-killed" / "data").mkdir(parents=True)
    (folder / "draft-killed" / "data" / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(tmp_path / "home")
    try:
        server.start()
    finally:
        server.stop()

    assert [each.name for each in folder.iterdir()] == ["data"]


def test_data_of_another_version_is_refused(server: EmbeddedPostgres) -> None:
    server.stop()
    (server.home.path / "postgres" / "data" / "PG_VERSION").write_text("16\n")

    with pytest.raises(RuleBroken, match=r"made by PostgreSQL 16 and this is 18"):
        server.start()


def test_a_password_file_of_another_home_is_named(server: EmbeddedPostgres) -> None:
    server.stop()
    (server.home.path / "secrets" / "postgres-superuser-password").write_text("wrong")

    with pytest.raises(RuleBroken, match="postgres-superuser-password is not the one"):
        server.start()
    assert not server.alive()


def test_a_server_that_dies_while_it_starts_shows_why_and_names_its_log(server: EmbeddedPostgres) -> None:
    server.stop()
    (server.home.path / "postgres" / "data" / "postgresql.conf").write_text("no_such_setting = 1\n")

    with pytest.raises(Unavailable, match=r"\(FATAL: .*postgresql\.conf\" contains errors.*log/postgres\.log\.$"):
        server.start()


def test_a_port_in_use_is_named(tmp_path: Path, server: EmbeddedPostgres) -> None:
    with pytest.raises(RuleBroken, match=f"Port {server.port} .*RETOLD_POSTGRES_PORT"):
        EmbeddedPostgres(tmp_path / "other", port=server.port).start()


def test_without_the_wheel_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(RuleBroken, match=r"retold\[embedded\].*RETOLD_DATABASE_URL"):
        EmbeddedPostgres(tmp_path).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user")
def test_without_setpriv_root_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **rest: None if name == "setpriv" else which(name, **rest))

    with pytest.raises(RuleBroken, match="apt install util-linux"):
        EmbeddedPostgres(tmp_path).start()
