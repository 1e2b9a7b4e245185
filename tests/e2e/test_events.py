"""`retold events`: the newest, a page, a selection, and following along (X-11, X-24, X-26)."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Retold, retold
from app.domain import session
from app.infrastructure.postgres.engine import connect
from app.settings import Settings
from app.use_cases.ports import Append
from tests.commandline import Cli, Process, eventually, process, settings_of

LONG = "🌧️ chuva " * 200


@pytest.fixture
def product(database: str) -> Iterator[Retold]:
    """Thirty sessions of two tenants, by turns."""
    with retold(database, Settings()) as product:
        for number in range(30):
            open_session(product, f"s{number}", tenant=("default", "other")[number % 2])
        yield product


def open_session(product: Retold, id_: str, tenant: str = "default") -> int:
    opened = product.open_session(tenant=tenant, session_id=id_, user="user-1", project="p", agent="assistant")
    return opened.position


def positions(answer: Any) -> list[int]:
    return [each["position"] for each in answer.json]


def test_the_newest_twenty_are_shown_unless_another_count_is_given(cli_on_log: Cli, product: Retold) -> None:
    for number in range(30, 45):
        open_session(product, f"s{number}")
    newest = positions(cli_on_log("events", "--json"))

    assert len(newest) == 20
    assert newest == sorted(newest)
    assert newest[-1] == product.log.head()
    assert positions(cli_on_log("events", "--tail", "3", "--json")) == newest[-3:]


def test_a_tail_of_zero_shows_none(cli_on_log: Cli, product: Retold) -> None:
    assert cli_on_log("events", "--tail", "0", "--json").json == []
    assert cli_on_log("events", "--tail", "0", "--after", "0", "--json").json == []


def test_pages_follow_each_other_without_gap_or_overlap(cli_on_log: Cli, product: Retold) -> None:
    everything = positions(cli_on_log("events", "--tail", "1000", "--json"))

    paged: list[int] = []
    after = 0
    while page := positions(cli_on_log("events", "--after", str(after), "--tail", "4", "--json")):
        paged += page
        after = page[-1]

    assert paged == everything
    assert f"--after {everything[3]}" in cli_on_log("events", "--after", "0", "--tail", "4").out


def test_another_tenant_is_seen_only_when_asked_for(cli_on_log: Cli, product: Retold) -> None:
    def tenants(*words: str) -> set[str]:
        return {each["tenant"] for each in cli_on_log("events", "--tail", "100", "--json", *words).json}

    assert tenants() == {"default"}
    assert tenants("--tenant", "other") == {"other"}
    assert tenants("--tenant", "nobody") == set()
    assert tenants("--all-tenants") == {"default", "other"}


def test_streams_and_types_narrow_what_is_shown(cli_on_log: Cli, product: Retold) -> None:
    product.close_session(tenant="default", session_id="s2")
    product.close_session(tenant="default", session_id="s4")

    of_stream = cli_on_log("events", "--stream", "session-s2", "--json").json
    closed = cli_on_log("events", "--type", "session.closed", "--json").json
    both = cli_on_log("events", "--type", "session.closed", "--type", "session.opened", "--tail", "100", "--json").json

    assert [each["type"] for each in of_stream] == ["session.opened", "session.closed"]
    assert [each["stream"] for each in closed] == ["session-s2", "session-s4"]
    assert {each["type"] for each in both} == {"session.opened", "session.closed"}


def test_words_are_whole_in_json_and_cut_with_a_mark_in_the_table(cli_on_log: Cli, product: Retold) -> None:
    product.accept_message(tenant="default", session_id="s0", message="m", text=LONG)

    (shown,) = cli_on_log("events", "--tail", "1", "--json").json
    table = cli_on_log("events", "--tail", "1").out

    assert shown["data"]["text"] == LONG
    assert shown["subject"] == "user-1"
    assert "…" in table
    assert LONG not in table


def test_a_persons_words_cannot_steer_the_terminal(cli_on_log: Cli, product: Retold) -> None:
    product.accept_message(tenant="default", session_id="s0", message="m", text="[red]\x1b[2J\r\n\x07 over")

    table = cli_on_log("events", "--tail", "1").out

    assert "[red]" in table
    assert not {"\x1b", "\r", "\x07"} & set(table)


@pytest.mark.parametrize("schema", [1, 99])
def test_an_event_that_cannot_be_read_is_shown_as_it_is_stored_among_the_others(
    cli_on_log: Cli, database: str, product: Retold, schema: int
) -> None:
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO events (id, tenant, stream, version, type, schema, data, personal, meta) VALUES "
            "(gen_random_uuid(), 'default', 'session-damaged', 1, 'session.handoff_offered', %s, %s, %s, '{}')",
            (schema, '{"nonsense": true}', '{"why": "[nobody] knows"}'),
        )
    open_session(product, "after")

    (_, damaged, after) = cli_on_log("events", "--tail", "3", "--json").json
    table = cli_on_log("events", "--tail", "3")

    assert damaged["data"] == {"nonsense": True, "why": "[nobody] knows"}
    assert "session.handoff_offered" in damaged["unreadable"]
    assert (after["stream"], after["unreadable"]) == ("session-after", None)
    assert table.code == 0
    assert "(unreadable) nonsense=True why=[nobody] knows" in table.out


def test_following_shows_every_event_once_in_order_while_others_write(
    database: str, product: Retold, tmp_path: Path
) -> None:
    start = product.log.head()
    with following(database, tmp_path, "--after", str(start)) as process_:
        writers = [threading.Thread(target=_open_many, args=(product, f"w{writer}-")) for writer in range(4)]
        for each in writers:
            each.start()
        for each in writers:
            each.join()
        written = [each.position for each in product.log.read(after=start)]
        eventually(lambda: len(_seen(process_)) >= len(written), state=lambda: process_.said[-500:])

        assert process_.end() == 0
        assert _seen(process_) == written


def test_following_waits_for_a_lower_position_that_commits_last(database: str, product: Retold, tmp_path: Path) -> None:
    start = product.log.head()
    with following(database, tmp_path, "--tail", "0") as process_:
        eventually(lambda: _probe(product, process_), state=lambda: process_.said)
        seen_before = len(_seen(process_))
        with product.open_session.begin() as slow:
            (late,) = slow.append(_opening("late"))
            early = open_session(product, "early")
        eventually(lambda: len(_seen(process_)) >= seen_before + 2, state=lambda: process_.said)

        assert late.position < early
        assert _seen(process_)[-2:] == [late.position, early]
        assert _seen(process_) == sorted(_seen(process_))
        assert _seen(process_)[0] > start


def following(database: str, tmp_path: Path, *words: str) -> Any:
    environment = settings_of(database) | {"RETOLD_HOME": str(tmp_path / "home")}
    return process("events", "--follow", "--json", *words, environment=environment, log=tmp_path / "followed")


def _probe(product: Retold, process_: Process) -> bool:
    """Whether it follows by now: what it shows with `--tail 0` was written after it began."""
    head = product.log.head()
    open_session(product, f"probe-{head}")
    return bool(_seen(process_))


def _seen(process_: Process) -> list[int]:
    return [json.loads(line)["position"] for line in process_.said.splitlines(keepends=True) if line.endswith("\n")]


def _open_many(product: Retold, prefix: str) -> None:
    for number in range(25):
        open_session(product, f"{prefix}{number}")


def _opening(id_: str) -> Append:
    return Append(
        session.stream("default", id_), session.open_session(user="user-1", project="p", agent="assistant"), "new"
    )
