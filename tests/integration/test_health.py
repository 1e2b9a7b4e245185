"""What `/health` and `/metrics` say about a projector that is well, stuck, dead, or in an outage."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.errors import LogUnavailable, RuleBroken
from projector.cycle import Cycle
from projector.health import Beat, application, serving
from projector.metrics import Metrics
from projector.status import Status, complaints
from tests.projecting import outlook, rows

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WELL = Status(
    pending=0,
    oldest_pending_seconds=None,
    parked=0,
    head=7,
    log_head=7,
    holder="host:1",
    last_attempt_at=NOW,
    last_success_at=NOW,
    seconds_since_attempt=1.0,
    outage=None,
    outage_since=None,
    replay_started_at=None,
)
STUCK_AFTER = timedelta(seconds=30)


@contextmanager
def answering(
    status: Status | LogUnavailable, *, stuck_after: timedelta = STUCK_AFTER
) -> Iterator[tuple[str, Metrics]]:
    def ask() -> Status:
        if isinstance(status, LogUnavailable):
            raise status
        return status

    metrics = Metrics(ask)
    answers = application(Beat(stuck_after), ask, metrics.registry, stuck_after=STUCK_AFTER)
    with serving(answers, "127.0.0.1", 0) as url:
        yield url, metrics


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def health(url: str) -> tuple[int, dict[str, Any]]:
    code, body = get(f"{url}/health")
    return code, json.loads(body)


def test_a_projector_that_does_its_work_is_green() -> None:
    with answering(WELL) as (url, _):
        code, body = health(url)
    assert (code, body["status"], body["complaints"]) == (200, "ok", [])
    assert body["projection"]["head"] == 7


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (replace(WELL, seconds_since_attempt=31.0), "dead or stuck"),
        (replace(WELL, seconds_since_attempt=None, last_attempt_at=None), "no projector has run yet"),
        (replace(WELL, outage="refused", outage_since=NOW), "unavailable since 2030-01-01 00:00:00 UTC: refused"),
        (replace(WELL, pending=3, oldest_pending_seconds=99.0), "has waited for 99 s"),
        (replace(WELL, replay_started_at=NOW, holder=None), "a replay is unfinished"),
        (LogUnavailable("PostgreSQL at db:5432/retold cannot be used"), "PostgreSQL at db:5432/retold"),
    ],
)
def test_a_projector_in_trouble_is_red_and_says_why(status: Status | LogUnavailable, said: str) -> None:
    with answering(status) as (url, _):
        code, body = health(url)
    assert (code, body["status"]) == (503, "failing")
    assert said in body["complaints"][0]


def test_a_projector_that_is_stuck_in_a_cycle_is_red_although_the_database_knows_nothing_of_it() -> None:
    with answering(WELL, stuck_after=timedelta(0)) as (url, _):
        code, body = health(url)
    assert code == 503
    assert "it is stuck" in body["complaints"][0]


def test_parked_rows_wait_for_an_operator_and_are_no_illness() -> None:
    assert complaints(replace(WELL, parked=5), stuck_after=STUCK_AFTER) == []


def test_a_replay_that_somebody_is_at_is_no_illness_although_rows_wait_for_it() -> None:
    replaying = replace(WELL, replay_started_at=NOW, pending=9, oldest_pending_seconds=900.0)
    assert complaints(replaying, stuck_after=STUCK_AFTER) == []


def test_the_metrics_tell_what_the_process_did_and_how_the_projection_does() -> None:
    with answering(replace(WELL, pending=4, oldest_pending_seconds=2.5, parked=1, log_head=9)) as (url, metrics):
        metrics.observe(Cycle(taken=6, marked=5, failed=1, seconds=0.2))
        metrics.observe(Cycle(outage="gone"))
        code, body = get(f"{url}/metrics")
    found = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
    assert code == 200
    assert {name: float(found[f"retold_projector_{name}"]) for name in (
        "applied_rows_total", "failed_rows_total", "outages_total", "batch_seconds_count", "pending_rows",
        "oldest_pending_seconds", "parked_rows", "head_position", "log_up", "graph_up",
    )} == {
        "applied_rows_total": 5, "failed_rows_total": 1, "outages_total": 1, "batch_seconds_count": 1,
        "pending_rows": 4, "oldest_pending_seconds": 2.5, "parked_rows": 1, "head_position": 7, "log_up": 1,
        "graph_up": 1,
    }  # fmt: skip
    assert float(found["retold_log_head_position"]) == 9


def test_without_postgresql_the_metrics_still_answer() -> None:
    with answering(LogUnavailable("gone")) as (url, _):
        code, body = get(f"{url}/metrics")
    assert code == 200
    assert "retold_projector_log_up 0.0" in body


def test_another_path_is_not_found() -> None:
    with answering(WELL) as (url, _):
        assert get(f"{url}/")[0] == 404


def test_x27_a_port_in_use_is_named_with_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(RuleBroken, match=rf"cannot listen on 127\.0\.0\.1:{port}.*RETOLD_PROJECTOR_PORT"),
            serving(lambda *_: [], "127.0.0.1", port),
        ):
            pass


def test_the_status_is_read_by_the_database_s_clock(database: str) -> None:
    before = outlook(database).status()
    assert (before.pending, before.seconds_since_attempt, before.log_head) == (0, None, 0)
    rows(
        database,
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_position, tenant, created_at) "
        "VALUES ('graph_projection', 'session-1', 1, 'default', clock_timestamp() - interval '90 s')",
    )
    rows(database, "UPDATE projections SET last_attempt_at = clock_timestamp() - interval '60 s'")
    after = outlook(database).status()
    assert after.pending == 1
    assert after.oldest_pending_seconds == pytest.approx(90, abs=30)
    assert after.seconds_since_attempt == pytest.approx(60, abs=30)


@pytest.mark.parametrize("host", ["300.1.1.1", "192.0.2.1", "a..b"])
def test_a_host_that_is_not_ours_is_named_with_its_setting(host: str) -> None:
    with pytest.raises(RuleBroken, match="RETOLD_PROJECTOR_HOST") as refused, _serving_on(host):
        pass

    assert "RETOLD_PROJECTOR_PORT" not in str(refused.value)


@contextmanager
def _serving_on(host: str) -> Iterator[str]:
    metrics = Metrics(lambda: WELL)
    answers = application(Beat(STUCK_AFTER), lambda: WELL, metrics.registry, stuck_after=STUCK_AFTER)
    with serving(answers, host, 0) as url:
        yield url
