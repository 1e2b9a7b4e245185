"""Connecting: what goes wrong is said without the password, and with what to do."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import pytest

from app.domain.errors import LogUnavailable, RuleBroken
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import address, connect, make_engine
from app.infrastructure.postgres.hint import CHANNEL, Hinter, no_hint
from app.infrastructure.postgres.log import PostgresLog
from app.infrastructure.postgres.unit_of_work import PostgresBegin


def test_a_session_is_named_and_lives_in_utc(database: str) -> None:
    with connect(database) as connection:
        settings = (
            "current_setting('application_name'), current_setting('timezone'), current_setting('client_encoding')"
        )
        assert connection.execute(f"SELECT {settings}".encode()).fetchone() == ("retold", "UTC", "UTF8")


def test_what_the_url_says_wins(database: str) -> None:
    with connect(f"{database}?application_name=mine&options=-c%20timezone%3DEurope/Rome") as connection:
        settings = b"SELECT current_setting('application_name'), current_setting('timezone')"
        assert connection.execute(settings).fetchone() == ("mine", "Europe/Rome")


def test_no_password_is_shown(database: str) -> None:
    engine = make_engine("postgresql://user-1:hunter2@db.example:5433/retold")

    assert "hunter2" not in repr(engine) + repr(engine.url) + engine.url.render_as_string(hide_password=False)
    assert address("postgresql://user-1:hunter2@db.example:5433/retold") == "db.example:5433/retold"
    assert address("postgresql://user-1:hunter2@one:1,two:2/retold") == "one,two:1,2/retold"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user-1:hun%ter2@localhost/retold",
        "hunter2",
        "postgresql://a@b/c?hunter2=1",
        # A password with characters of a URL's own, which libpq takes in part for host, port or database.
        "postgresql://user-1:a@hunter2@localhost:1/retold",
        "postgresql://user-1:a@b:hunter2@localhost:1/retold",
        "postgresql://user-1:hunter2/a@localhost:1/retold",
        "postgresql://user-1:54/hunter2@localhost:1/retold",
        "postgresql://user-1:54/hunter2@a@localhost:1/retold",
        "postgresql://user-1:hunter2/retold",
    ],
)
@pytest.mark.parametrize("use", [address, connect, make_engine])
def test_a_url_that_cannot_be_read_is_refused_without_being_quoted(url: str, use: Callable[[str], object]) -> None:
    with pytest.raises(RuleBroken, match="cannot be read") as refused:
        use(url)

    assert "hunter2" not in f"{refused.value}{refused.value.__cause__}"
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://user-1:a%40b%2Fc@db/retold", "db:5432/retold"),
        ("postgresql://user-1:a?b#c@db/retold", "db:5432/retold"),
        ("postgresql://db/retold?user=me@corp.example", "db:5432/retold"),
        ("postgresql://me:hunter2@/retold?host=/run/p@g", "/run/p@g:5432/retold"),
        ("postgresql://me:hunter2@[::1]:1,two/retold", "::1,two:1,/retold"),
        ("postgresql://db/re%40told", "db:5432/re@told"),
    ],
)
def test_what_is_percent_encoded_or_cannot_be_mistaken_is_taken(url: str, expected: str) -> None:
    assert address(url) == expected


def test_a_wrong_password_an_unknown_database_and_no_server_are_an_outage_that_says_why(database: str) -> None:
    parts = urlsplit(database)
    wrong = urlunsplit(parts._replace(netloc=f"{parts.username}:hunter2@{parts.hostname}:{parts.port}"))
    missing = urlunsplit(parts._replace(path="/no_such_database"))
    away = urlunsplit(parts._replace(netloc=f"{parts.username}:hunter2@{parts.hostname}:1"))

    for url, reason in ((wrong, "password"), (missing, "does not exist"), (away, "refused")):
        begin = PostgresBegin(make_engine(url), Codec(), uuid7, no_hint)
        with pytest.raises(LogUnavailable, match=f"{reason}.*; check RETOLD_DATABASE_URL") as refused:
            connect(url)
        assert "hunter2" not in str(refused.value)
        with pytest.raises(LogUnavailable, match=reason), begin():
            pass


def test_a_database_that_was_not_migrated_says_so(bare_database: str) -> None:
    engine = make_engine(bare_database)
    with pytest.raises(LogUnavailable, match="run `retold migrate`"):
        PostgresLog(engine, Codec()).head()
    engine.dispose()


def test_hints_arrive_and_come_together(database: str) -> None:
    hinter = Hinter(database)
    with connect(database) as listener:
        listener.execute(f"LISTEN {CHANNEL}".encode())
        begun = time.perf_counter()
        for _ in range(1000):
            hinter.hint()
        assert time.perf_counter() - begun < 1
        arrived = list(listener.notifies(timeout=10, stop_after=1))
        hinter.close()
        arrived.extend(listener.notifies(timeout=0.2))
    assert 1 <= len(arrived) < 100


def test_a_hint_to_a_server_that_is_away_is_lost_in_silence() -> None:
    hinter = Hinter("postgresql://user-1@127.0.0.1:1/retold", connect_timeout=timedelta(seconds=2))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: hinter.hint(), range(20)))
    hinter.close()
