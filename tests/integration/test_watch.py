"""Up to where the log is final: nothing is lost to a late commit, and nobody is held up by a stranger."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import psycopg
import pytest

from app.bootstrap import Retold, retold
from app.domain import session
from app.infrastructure.postgres.watch import Watch, watching
from app.settings import Settings
from app.use_cases.ports import Append


@pytest.fixture
def product(database: str) -> Iterator[Retold]:
    with retold(database, Settings()) as product:
        yield product


@pytest.fixture
def watch(database: str) -> Iterator[Watch]:
    with watching(database, connect_timeout=timedelta(seconds=5)) as watch:
        yield watch


def open_session(product: Retold, id_: str) -> int:
    return product.open_session(tenant="t", session_id=id_, user="u", project="p", agent="a").position


@contextmanager
def slow_append(product: Retold, id_: str) -> Iterator[int]:
    """An append whose transaction stays open for as long as the block lasts."""
    events = session.open_session(user="u", project="p", agent="a")
    with product.open_session.begin() as work:
        (opened,) = work.append(Append(session.stream("t", id_), events, "new"))
        yield opened.position


def test_an_empty_log_is_final_at_zero(watch: Watch) -> None:
    assert watch.final() == 0
    assert not watch.waits


def test_all_that_is_committed_is_final_where_nobody_appends(product: Retold, watch: Watch) -> None:
    last = open_session(product, "a")

    assert watch.final() == last


def test_what_is_above_an_open_append_is_not_final_before_that_has_ended(product: Retold, watch: Watch) -> None:
    before = open_session(product, "before")
    assert watch.final() == before

    with slow_append(product, "late") as late:
        above = open_session(product, "above")

        assert late < above
        assert watch.final() == before
        assert watch.final() == before
        assert watch.waits

    assert watch.final() == above


def test_an_append_that_is_rolled_back_leaves_nobody_waiting(product: Retold, watch: Watch) -> None:
    with suppress(ZeroDivisionError), slow_append(product, "never"):
        above = open_session(product, "above")
        assert watch.final() < above
        _ = 1 / 0

    assert watch.final() == above


def test_appends_that_began_later_do_not_hold_back_what_was_there_before(product: Retold, watch: Watch) -> None:
    with slow_append(product, "first"):
        above_the_first = open_session(product, "above-the-first")
        watch.final()
        second = slow_append(product, "second")
        second.__enter__()
    try:
        assert above_the_first <= watch.final() < product.log.head() + 2
    finally:
        second.__exit__(None, None, None)


def test_an_idle_transaction_on_another_table_holds_nobody_up(product: Retold, watch: Watch, database: str) -> None:
    with psycopg.connect(database) as idle:
        idle.execute("UPDATE projections SET head = head")
        last = open_session(product, "a")

        assert watch.final() == last
