"""`retold seed`: demo data through the use cases, once (G-49)."""

from app.bootstrap import retold
from app.infrastructure.postgres.codec import EVENT_TYPES
from app.settings import Settings
from seeds.crowd import crowd
from seeds.demo import DEMO, SESSIONS
from seeds.plan import plan
from seeds.sow import sow
from tests.commandline import Cli

BY_OPERATORS_ONLY = {"projection.row_skipped"}


def test_seeding_twice_changes_nothing_and_says_so(cli_on_log: Cli) -> None:
    first, second = cli_on_log("seed", "--json").json, cli_on_log("seed")

    assert first["written"] > 0
    assert second.code == 0
    assert "nothing to do" in second.out
    again = cli_on_log("seed", "--json").json
    assert (again["present"], again["written"]) == (first["written"], 0)


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(cli_on_log: Cli) -> None:
    dry = cli_on_log("seed", "--dry-run", "--json").json
    still_dry = cli_on_log("seed", "--dry-run")
    wet = cli_on_log("seed", "--json").json

    assert "would be written" in still_dry.out
    assert dry["present"] == 0
    assert dry["written"] == wet["written"] > 0


def test_seeding_that_was_cut_short_is_finished_by_the_next(cli_on_log: Cli, database: str) -> None:
    whole = cli_on_log("seed", "--dry-run", "--json").json["written"]
    with retold(database, Settings()) as product:
        for step in plan("default", SESSIONS[0]).steps[:4]:
            step(product)

    finished = cli_on_log("seed", "--json").json

    assert (finished["present"], finished["written"]) == (4, whole - 4)


def test_a_stream_that_somebody_else_went_on_with_is_left_as_it_is(cli_on_log: Cli, database: str) -> None:
    with retold(database, Settings()) as product:
        story = SESSIONS[0]
        product.open_session(tenant="default", session_id=story.id, user="u", project="p", agent="a")
        product.close_session(tenant="default", session_id=story.id)

    answer = cli_on_log("seed", "--json")

    assert answer.code == 0
    (left,) = [each for each in answer.json["streams"] if each["note"]]
    assert (left["stream"], left["written"]) == (f"session-{SESSIONS[0].id}", 0)


def test_the_demo_shows_every_event_that_a_use_case_can_write(database: str) -> None:
    with retold(database, Settings()) as product:
        sow(product, DEMO, tenant="acme")
        found = {each.type for each in product.log.read(tenant="acme")}

    assert found == {each.name for each in EVENT_TYPES} - BY_OPERATORS_ONLY


def test_the_demo_is_written_for_the_tenant_of_the_settings_alone(cli_on_log: Cli, database: str) -> None:
    cli_on_log("seed")

    with retold(database, Settings()) as product:
        assert {each.stream.tenant for each in product.log.read()} == {"default"}


def test_evidence_in_the_demo_exists_and_belongs_to_its_session(database: str) -> None:
    with retold(database, Settings()) as product:
        sow(product, DEMO, tenant="acme")
        proposed = list(product.log.read(tenant="acme", types=["hypothesis.proposed"]))
        sessions = {story.id for story in SESSIONS}

    assert sum(len(each.event.evidence) for each in proposed) > 0
    for each in proposed:
        assert {cited.session for cited in each.event.evidence} <= {each.event.session} <= sessions


def test_a_crowd_is_the_same_every_time(database: str) -> None:
    with retold(database, Settings()) as product:
        first = sow(product, crowd(3), tenant="acme")
        second = sow(product, crowd(3), tenant="acme")

    assert [each.written for each in second] == [0] * len(first)
    assert sum(each.written for each in first) == sum(each.present for each in second)
