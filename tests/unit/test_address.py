"""URLs that are shown hold no credentials, in whatever place they were given."""

import pytest

from app.cli.address import http_url, shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:pass@db:5432/retold", "postgresql://db:5432/retold"),
        ("postgresql://me:p%40ss@db/retold?sslmode=require", "postgresql://db/retold?sslmode=require"),
        ("postgresql://me:p@ss@db/retold", "postgresql://db/retold"),
        ("postgresql://db/retold?user=me&password=pass", "postgresql://db/retold"),
        ("postgresql:///retold?host=/run/pg&password=pass", "postgresql:///retold?host=%2Frun%2Fpg"),
        ("postgresql://me:pass@one:5432,two:5433/retold", "postgresql://one:5432,two:5433/retold"),
        ("bolt://127.0.0.1:7687", "bolt://127.0.0.1:7687"),
    ],
)
def test_a_shown_url_has_no_credentials(url: str, expected: str) -> None:
    assert shown(url) == expected


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://[::1]:1"),
        ("projector", "http://projector:1"),
    ],
)
def test_a_server_on_every_address_is_asked_on_this_machine(host: str, url: str) -> None:
    assert http_url(host, 1) == url
