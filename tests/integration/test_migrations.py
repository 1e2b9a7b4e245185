"""Migrations: up, down and up again, never two at once, and never on a database that is newer."""

import contextlib
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import psycopg
import pytest

from app.domain.errors import LogUnavailable, RuleBroken
from app.infrastructure.postgres import migration
from app.infrastructure.postgres.engine import connect

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
OURS = ["alembic_version", "events", "outbox", "projections", "streams"]


def tables(url: str) -> list[str]:
    with connect(url) as connection:
        return [name for (name,) in connection.execute(TABLES)]


def test_up_down_and_up_again(bare_database: str) -> None:
    assert migration.current(bare_database) is None

    migration.migrate(bare_database)
    assert migration.current(bare_database) == migration.head()
    assert tables(bare_database) == OURS
    migration.migrate(bare_database)

    migration.downgrade(bare_database, revision="base")
    assert tables(bare_database) == ["alembic_version"]
    with connect(bare_database) as connection:
        assert connection.execute("SELECT count(*) FROM pg_proc WHERE proname LIKE 'refuse%'").fetchone() == (0,)

    migration.migrate(bare_database)
    assert tables(bare_database) == OURS


def test_the_tables_of_the_code_are_those_of_the_database(database: str) -> None:
    migration.check(database)


def test_the_graph_projection_has_its_row_from_the_start(database: str) -> None:
    with connect(database) as connection:
        assert connection.execute("SELECT name, head FROM projections").fetchall() == [("graph", 0)]


def test_five_threads_that_migrate_at_once_all_succeed(bare_database: str) -> None:
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(migration.migrate, [bare_database] * 5))

    assert tables(bare_database) == OURS


def test_two_processes_that_migrate_at_once_both_succeed(bare_database: str) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(migration.migrate, [bare_database] * 2))

    assert tables(bare_database) == OURS


def test_a_migration_waits_for_another_one(bare_database: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        with connect(bare_database) as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", (migration.LOCK,))
            migrating = pool.submit(migration.migrate, bare_database)
            with pytest.raises(TimeoutError):
                migrating.result(0.5)
            assert tables(bare_database) == []
        migrating.result(30)

    assert tables(bare_database) == OURS


def test_a_database_that_is_newer_is_left_alone(database: str) -> None:
    with connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(RuleBroken, match="newer than this Retold: it has revision '9999'"):
        migration.migrate(database)
    assert migration.current(database) == "9999"


def test_a_migration_gives_up_behind_a_table_that_stays_locked(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "LOCK_TIMEOUT", migration.LOOK_AGAIN)
    with contextlib.closing(psycopg.connect(database)) as reader:
        reader.execute("SELECT * FROM outbox")
        begun = time.monotonic()
        with pytest.raises(LogUnavailable, match="lock"):
            migration.downgrade(database, revision="base")

    assert time.monotonic() - begun < 10
    assert migration.current(database) == migration.head()


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(LogUnavailable, match=r"127\.0\.0\.1:1/nowhere") as refused:
        migration.migrate("postgresql://user-1:hunter2@127.0.0.1:1/nowhere")

    assert "hunter2" not in str(refused.value)
