"""What every unit of work promises: the same on the log in memory and on PostgreSQL."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol
from uuid import UUID, uuid4

import psycopg
import pytest

from app.domain import hypothesis, profile, projection, session, template
from app.domain.errors import Conflict, NotFound, RetoldError, RuleBroken
from app.domain.events import Evidence, Expected, Meta, Recorded, Stream
from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.codec import EVENT_TYPES, Codec
from app.infrastructure.postgres.engine import connect, make_engine
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from app.use_cases.ports import Append, Begin
from tests.memory import MemoryBegin

SESSION = session.stream("acme", "42")
OTHER = session.stream("acme", "43")
OPENED = session.SessionOpened(user="user-1", project="retold", agent="assistant")
SAID = session.MessageAccepted(message="m1", user="user-1", text="Hello")
OFFERED = session.HandoffOffered(
    from_agent="assistant", to_agent="ux_designer", project="retold", user="user-1", reason="Ann asks for a form"
)
EVIDENCE = (Evidence(event_id=UUID(int=7), session="42", version=2),)
ONE_OF_EACH = (
    OPENED,
    SAID,
    session.TurnClosed(turn=1, message="m1", agent="assistant", user="user-1", question="Hello", answer="Hi"),
    OFFERED,
    session.HandoffAccepted(offer=4, agent="ux_designer"),
    session.SessionClosed(user="user-1", project="retold", turns=1, first=2, last=5),
    session.SessionClosedAbnormally(
        user="user-1", project="retold", turns=0, first=None, last=None, cause=session.Cause.TIMED_OUT
    ),
    hypothesis.HypothesisProposed(
        session="42", agent="ux_designer", user="user-1", evidence=EVIDENCE, description="Shy"
    ),
    hypothesis.HypothesisAccepted(reviewer="reviewer-1"),
    hypothesis.HypothesisDismissed(reviewer="reviewer-1", user="user-1", reason="No"),
    profile.ProfileRecorded(user="user-1", competence="design", level=3, evidence=EVIDENCE, statement="Draws well"),
    profile.ProfileErased(user="user-1", competence="design", reason="asked"),
    template.TemplateVersionPublished(number=1, language="en", hash="ab", body="Be kind"),
    template.TemplateActivated(number=1),
    projection.RowSkipped(position=3, reason="poison", operator="reviewer-1"),
)
SHOWN = (
    session.HandoffOffered,
    session.SessionClosed,
    session.SessionClosedAbnormally,
    hypothesis.HypothesisProposed,
    hypothesis.HypothesisAccepted,
    hypothesis.HypothesisDismissed,
    profile.ProfileRecorded,
    profile.ProfileErased,
    template.TemplateVersionPublished,
    template.TemplateActivated,
)


class World(Protocol):
    """A log, seen from behind: what a test needs beyond the port."""

    begin: Begin
    hints: list[str]

    def rows(self) -> list[tuple[int, str, str, int]]:
        """Of the outbox: id, aggregate type, stream, position."""

    def pending(self) -> list[int]:
        """The ids of the rows that are neither processed nor parked."""

    def columns(self, position: int) -> tuple[Any, Any, str | None]:
        """Of an event: data, personal, subject."""

    def erase(self, position: int) -> None: ...

    def park(self, head: int, *behind: int) -> None: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.hints: list[str] = []
        self.memory = MemoryBegin(hint=lambda: self.hints.append("hint"))
        self.begin: Begin = self.memory

    def rows(self) -> list[tuple[int, str, str, int]]:
        return [(each.id, each.aggregate_type, each.stream, each.position) for each in self.memory.state.rows]

    def pending(self) -> list[int]:
        return [each.id for each in self.memory.state.rows if not each.processed and each.parked_at is None]

    def columns(self, position: int) -> tuple[Any, Any, str | None]:
        kept = self.memory.state.events[position - 1]
        return json.loads(kept.data), kept.personal and json.loads(kept.personal), kept.subject

    def erase(self, position: int) -> None:
        events = tuple(
            replace(each, personal=None) if each.position == position else each for each in self.memory.state.events
        )
        self.memory.state = replace(self.memory.state, events=events)

    def park(self, head: int, *behind: int) -> None:
        self.memory.park(head, *behind)


class PostgresWorld:
    def __init__(self, begin: Begin, connection: psycopg.Connection[tuple[Any, ...]], hints: list[str]) -> None:
        self.begin = begin
        self.hints = hints
        self._connection = connection

    def rows(self) -> list[tuple[int, str, str, int]]:
        return self._all("SELECT id, aggregate_type, aggregate_id, event_position FROM outbox ORDER BY id")

    def pending(self) -> list[int]:
        pending = "SELECT id FROM outbox WHERE processed_at IS NULL AND parked_at IS NULL ORDER BY id"
        return [id_ for (id_,) in self._all(pending)]

    def columns(self, position: int) -> tuple[Any, Any, str | None]:
        ((data, personal, subject),) = self._all(
            "SELECT data, personal, subject FROM events WHERE position = %s", position
        )
        return data, personal, subject

    def erase(self, position: int) -> None:
        self._connection.execute("UPDATE events SET personal = NULL WHERE position = %s", (position,))

    def park(self, head: int, *behind: int) -> None:
        self._connection.execute(
            "UPDATE outbox SET parked_at = now(), attempts = 3, last_error = 'boom' WHERE id = %s", (head,)
        )
        self._connection.execute(
            "UPDATE outbox SET parked_at = now(), behind = %s WHERE id = ANY(%s)", (head, list(behind))
        )

    def _all(self, query: str, *parameters: object) -> list[Any]:
        return self._connection.execute(query, parameters).fetchall()


@pytest.fixture(params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    url = request.getfixturevalue("database")
    engine = make_engine(url)
    hints: list[str] = []
    with connect(url) as connection:
        yield PostgresWorld(PostgresBegin(engine, Codec(), uuid7, lambda: hints.append("hint")), connection, hints)
    engine.dispose()


def append(world: World, stream: Stream, *events: object, expected: Expected = "any") -> list[Recorded]:
    with world.begin() as work:
        return list(work.append(Append(stream, events, expected)))


def read(world: World, stream: Stream) -> list[Recorded]:
    with world.begin() as work:
        return list(work.read(stream))


def test_g01_the_first_event_of_a_stream_has_version_1(world: World) -> None:
    (opened,) = append(world, SESSION, OPENED, expected="new")

    assert (opened.version, opened.type, opened.schema, opened.event) == (1, "session.opened", 1, OPENED)
    assert (opened.stream, opened.subject, opened.meta) == (SESSION, "user-1", Meta())
    assert opened.recorded_at.utcoffset() is not None
    assert read(world, SESSION) == [opened]


def test_g01_twenty_concurrent_appends_give_1_to_20_without_gap_or_retry(world: World) -> None:
    with ThreadPoolExecutor(20) as pool:
        stored = list(pool.map(lambda _: append(world, SESSION, SAID)[0], range(20)))

    assert sorted(each.version for each in stored) == list(range(1, 21))
    assert [each.version for each in read(world, SESSION)] == list(range(1, 21))


def test_g02_a_refused_append_leaves_no_hole(world: World) -> None:
    (first,) = append(world, SESSION, OPENED, expected="new")
    for _ in range(3):
        with pytest.raises(Conflict):
            append(world, SESSION, OPENED, OPENED, expected="new")

    (second,) = append(world, SESSION, SAID, expected=1)

    assert (second.position, second.version) == (first.position + 1, 2)
    assert [position for _, _, _, position in world.rows()] == [first.position, second.position]


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda each: type(each).__name__)
def test_g03_every_event_has_a_row_of_its_consumer_and_what_the_graph_shows_a_second(
    world: World, event: object
) -> None:
    (stored,) = append(world, SESSION, event)

    consumer = "session" if stored.type.startswith("session.") else "task"
    expected = [consumer, "graph_projection"] if isinstance(event, SHOWN) else [consumer]
    assert [(type_, stream, position) for _, type_, stream, position in world.rows()] == [
        (type_, "session-42", stored.position) for type_ in expected
    ]
    assert read(world, SESSION)[0].event == event


def test_every_registered_event_is_tested_here() -> None:
    assert {type(each) for each in ONE_OF_EACH} == {each.cls for each in EVENT_TYPES}


def test_g03_outbox_rows_are_in_the_order_of_the_events(world: World) -> None:
    stored = append(world, SESSION, OPENED, OFFERED, SAID, OFFERED)

    positions = [each.position for each in stored]
    assert positions == sorted(positions)
    assert [position for _, _, _, position in world.rows()] == [
        positions[0], positions[1], positions[1], positions[2], positions[3], positions[3],
    ]  # fmt: skip


def test_g20_an_error_in_the_block_stores_nothing(world: World) -> None:
    with pytest.raises(ZeroDivisionError), world.begin() as work:  # noqa: PT012
        work.append(Append(SESSION, (OPENED,), "new"))
        _ = 1 / 0

    assert read(world, SESSION) == []
    assert world.rows() == []
    assert world.hints == []


def test_a_hint_is_given_after_a_commit_that_wrote_and_only_then(world: World) -> None:
    read(world, SESSION)
    assert world.hints == []

    append(world, SESSION, OPENED)
    assert world.hints == ["hint"]


@pytest.mark.parametrize(
    ("there", "expected", "message"),
    [
        (1, "new", "should be new but is at version 1"),
        (2, 1, "should be at version 1 but is at version 2"),
        (2, 3, "should be at version 3 but is at version 2"),
        (0, 3, "should be at version 3 but does not exist"),
    ],
)
def test_a_stream_without_the_expected_version_is_a_conflict_that_names_both(
    world: World, there: int, expected: Expected, message: str
) -> None:
    before = append(world, SESSION, *[SAID] * there) if there else []

    with pytest.raises(Conflict, match=message) as refused:
        append(world, SESSION, SAID, expected=expected)

    assert "'session-42' of tenant 'acme'" in str(refused.value)
    assert read(world, SESSION) == before


def test_a_number_never_creates_a_stream(world: World) -> None:
    with pytest.raises(Conflict):
        append(world, SESSION, SAID, expected=3)

    (stored,) = append(world, SESSION, SAID, expected="new")
    assert stored.version == 1


def test_a_swallowed_conflict_cannot_be_committed(world: World) -> None:
    append(world, SESSION, OPENED)

    with pytest.raises(RuntimeError, match="swallowed"), world.begin() as work:  # noqa: SIM117
        with pytest.raises(Conflict):
            work.append(Append(SESSION, (OPENED,), "new"), Append(OTHER, (OPENED,), "new"))

    assert [each.version for each in read(world, SESSION)] == [1]
    assert read(world, OTHER) == []


def test_several_streams_are_written_together_and_returned_in_the_order_given(world: World) -> None:
    with world.begin() as work:
        stored = work.append(
            Append(OTHER, (OPENED, SAID), "new"),
            Append(SESSION, (OPENED,), "new", Meta(actor="user-1")),
            Append(hypothesis.stream("acme", "h"), (hypothesis.HypothesisAccepted(reviewer="reviewer-1"),), "any"),
        )

    assert [(each.stream.name, each.version) for each in stored] == [
        ("session-43", 1), ("session-43", 2), ("session-42", 1), ("hypothesis-h", 1),
    ]  # fmt: skip
    assert read(world, OTHER) == list(stored[:2])
    assert read(world, SESSION) == [stored[2]]
    assert stored[2].meta == Meta(actor="user-1")
    by_position = sorted(stored, key=lambda each: each.position)
    assert [each.stream.name for each in by_position] == ["hypothesis-h", "session-42", "session-43", "session-43"]


def test_g20_one_conflict_among_several_streams_stores_none(world: World) -> None:
    append(world, OTHER, OPENED)

    with pytest.raises(Conflict, match="session-43"), world.begin() as work:
        work.append(Append(SESSION, (OPENED,), "new"), Append(OTHER, (OPENED,), "new"))

    assert read(world, SESSION) == []
    assert len(read(world, OTHER)) == 1


def test_append_is_called_once_with_one_append_a_stream_and_with_events(world: World) -> None:
    with pytest.raises(RuntimeError, match="before"), world.begin() as work:  # noqa: PT012
        work.append(Append(SESSION, (OPENED,), "new"))
        work.append(Append(OTHER, (OPENED,), "new"))
    with pytest.raises(RuntimeError, match="two appends"), world.begin() as work:
        work.append(Append(SESSION, (OPENED,), "any"), Append(SESSION, (SAID,), "any"))
    with pytest.raises(RuntimeError, match="no event"), world.begin() as work:
        work.append(Append(SESSION, (), "any"))
    with world.begin() as work:
        assert list(work.append()) == []

    assert world.rows() == []


def test_an_event_of_an_unknown_class_is_refused(world: World) -> None:
    with pytest.raises(RuleBroken, match="not an event"):
        append(world, SESSION, "hello")


def test_load_and_read_see_the_same_events(world: World) -> None:
    stored = append(world, SESSION, OPENED, SAID)

    with world.begin() as work:
        assert list(work.load(SESSION)) == list(work.read(SESSION)) == stored
    with world.begin() as work:
        assert list(work.load(OTHER)) == list(work.read(OTHER)) == []


def test_a_unit_of_work_reads_its_own_writes(world: World) -> None:
    with world.begin() as work:
        stored = work.append(Append(SESSION, (OPENED, SAID), "new"))
        assert list(work.read(SESSION)) == list(stored)


def test_find_gives_the_events_that_exist(world: World) -> None:
    opened, said = append(world, SESSION, OPENED, SAID)

    with world.begin() as work:
        assert work.find([said.id, uuid4(), opened.id, said.id]) == {opened.id: opened, said.id: said}
        assert work.find([]) == {}


def test_meta_comes_back_as_it_was_given(world: World) -> None:
    meta = Meta(actor="user-1", causation=uuid4(), correlation=uuid4(), trace="00-abc-01")
    with world.begin() as work:
        work.append(Append(SESSION, (OPENED,), "any", meta))

    assert read(world, SESSION)[0].meta == meta


def test_x18_personal_fields_are_kept_apart_from_the_facts(world: World) -> None:
    (said,) = append(world, SESSION, SAID)

    assert world.columns(said.position) == ({"message": "m1", "user": "user-1"}, {"text": "Hello"}, "user-1")


def test_x18_erased_words_are_none_and_the_facts_remain(world: World) -> None:
    (said,) = append(world, SESSION, SAID)

    world.erase(said.position)

    assert read(world, SESSION) == [replace(said, event=replace(SAID, text=None))]


def test_a_type_without_personal_fields_has_no_personal_column(world: World) -> None:
    (accepted,) = append(world, SESSION, session.HandoffAccepted(offer=1, agent="a"))

    assert world.columns(accepted.position) == ({"offer": 1, "agent": "a"}, None, None)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("👩‍👩‍👧 joined", id="joined emoji"),
        pytest.param("e\u0301 and \u00e9", id="NFD and NFC"),
        pytest.param("\u202eשלום", id="right to left"),
        pytest.param("one\r\ntwo\rthree\n", id="CRLF"),
        pytest.param("  outer spaces\t ", id="outer spaces"),
        pytest.param('{"a": 1} \\u0000 \\ " \' %s $1', id="quotes"),
        pytest.param("ä" * 2**19, id="1 MiB"),
    ],
)
def test_t33_text_comes_back_byte_for_byte(world: World, text: str) -> None:
    append(world, SESSION, replace(SAID, text=text))

    assert read(world, SESSION)[0].event.text.encode() == text.encode()


@pytest.mark.parametrize("text", ["a\ud800b"])
def test_t33_what_is_no_unicode_is_refused(world: World, text: str) -> None:
    with pytest.raises(RuleBroken):
        append(world, SESSION, replace(SAID, text=text))

    assert read(world, SESSION) == []


def test_x26_tenants_with_the_same_ids_are_apart(world: World) -> None:
    append(world, SESSION, OPENED, SAID, expected="new")
    (theirs,) = append(world, session.stream("umbrella", "42"), OPENED, expected="new")

    assert theirs.version == 1
    assert read(world, session.stream("umbrella", "42")) == [theirs]
    assert len(read(world, SESSION)) == 2


@pytest.mark.parametrize("odd", ["a'b\"c", "a-b-c", "ünï", "%s", "a;drop table events", "-"])
def test_names_are_data(world: World, odd: str) -> None:
    stream = session.stream(odd, odd)

    (stored,) = append(world, stream, OPENED)

    assert stored.stream == stream
    assert read(world, stream) == [stored]


def test_a_parked_row_and_the_rest_of_its_stream_are_tried_again(world: World) -> None:
    park_three(world)

    with world.begin() as work:
        head = work.parked.head(2)
        assert (head.id, head.tenant, head.stream, head.type) == (2, "acme", "session-42", "session.handoff_offered")
        assert (head.attempts, head.error, head.behind) == (3, "boom", None)
        assert work.parked.retry(head) == 3

    assert world.pending() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert world.hints == ["hint"] * 3


def test_a_parked_row_that_is_skipped_lets_the_rest_of_its_stream_go_on(world: World) -> None:
    park_three(world)

    with world.begin() as work:
        assert work.parked.skip(work.parked.head(2)) == 2

    assert world.pending() == [1, 3, 4, 5, 6, 7, 8]
    with pytest.raises(NotFound), world.begin() as work:
        work.parked.head(2)


@pytest.mark.parametrize(
    ("row", "refusal", "message"),
    [(1, NotFound, "row 1 is not parked"), (99, NotFound, "row 99"), (4, Conflict, "row 4 waits behind row 2")],
)
def test_only_the_head_of_a_parked_stream_is_decided_about(
    world: World, row: int, refusal: type[RetoldError], message: str
) -> None:
    park_three(world)

    with pytest.raises(refusal, match=message), world.begin() as work:
        work.parked.head(row)


def park_three(world: World) -> None:
    append(world, SESSION, OFFERED, OFFERED, OFFERED)
    append(world, OTHER, OFFERED)
    world.park(2, 4, 6)
