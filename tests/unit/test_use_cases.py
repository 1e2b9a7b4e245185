"""What the product can do, on the log in memory: each use case is one transaction."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from app.domain.errors import Conflict, NotFound, RuleBroken, SessionNotActive
from app.domain.events import Evidence, Meta, Recorded
from app.domain.session import Cause
from app.use_cases.accept_handoff import AcceptHandoff
from app.use_cases.accept_hypothesis import AcceptHypothesis
from app.use_cases.accept_message import AcceptMessage
from app.use_cases.activate_template import ActivateTemplate
from app.use_cases.close_session import CloseSession
from app.use_cases.close_session_abnormally import CloseSessionAbnormally
from app.use_cases.close_turn import CloseTurn
from app.use_cases.dismiss_hypothesis import DismissHypothesis
from app.use_cases.erase_profile import EraseProfile
from app.use_cases.offer_handoff import OfferHandoff
from app.use_cases.open_session import OpenSession
from app.use_cases.propose_hypothesis import ProposeHypothesis
from app.use_cases.publish_template import PublishTemplate
from app.use_cases.record_profile import RecordProfile
from app.use_cases.retry_parked_row import RetryParkedRow
from app.use_cases.skip_parked_row import SkipParkedRow
from tests.memory import MemoryBegin, Row


@pytest.fixture
def begin() -> MemoryBegin:
    return MemoryBegin()


def open_session(begin: MemoryBegin, session_id: str = "42", tenant: str = "acme") -> Recorded:
    return OpenSession(begin)(tenant=tenant, session_id=session_id, user="user-1", project="retold", agent="assistant")


def say(begin: MemoryBegin, message: str = "m1", session_id: str = "42", text: str = "Hello") -> Sequence[Recorded]:
    return AcceptMessage(begin)(tenant="acme", session_id=session_id, message=message, text=text)


def propose(begin: MemoryBegin, hypothesis_id: str = "h1", evidence: Sequence[UUID] = ()) -> Recorded:
    return ProposeHypothesis(begin)(
        tenant="acme",
        hypothesis_id=hypothesis_id,
        session_id="42",
        agent="assistant",
        description="Is in a hurry",
        evidence=evidence,
    )


def types(begin: MemoryBegin) -> list[str]:
    return [each.type for each in begin.state.events]


def test_a_conversation_from_its_opening_to_its_end(begin: MemoryBegin) -> None:
    open_session(begin)
    say(begin)
    CloseTurn(begin)(tenant="acme", session_id="42", message="m1", answer="Hi")
    (offered,) = OfferHandoff(begin)(tenant="acme", session_id="42", to_agent="designer", reason="a form")
    AcceptHandoff(begin)(tenant="acme", session_id="42", offer=offered.version, agent="designer")
    (closed,) = CloseSession(begin)(tenant="acme", session_id="42")

    assert types(begin) == [
        "session.opened",
        "session.message_accepted",
        "session.turn_closed",
        "session.handoff_offered",
        "session.handoff_accepted",
        "session.closed",
    ]
    assert (closed.event.turns, closed.event.first, closed.event.last) == (1, 2, 5)


def test_w07_an_id_in_use_cannot_be_opened_again(begin: MemoryBegin) -> None:
    open_session(begin)

    with pytest.raises(Conflict, match="session-42"):
        open_session(begin)
    assert types(begin) == ["session.opened"]


def test_x26_the_same_id_in_another_tenant_is_another_session(begin: MemoryBegin) -> None:
    open_session(begin)
    open_session(begin, tenant="umbrella")

    CloseSession(begin)(tenant="umbrella", session_id="42")

    assert say(begin)


def test_w17_a_message_that_is_sent_again_is_stored_once(begin: MemoryBegin) -> None:
    open_session(begin)
    assert len(say(begin)) == 1
    assert say(begin) == ()
    with pytest.raises(Conflict):
        say(begin, text="Bye")

    assert types(begin) == ["session.opened", "session.message_accepted"]


def test_a_session_that_does_not_exist_is_not_found(begin: MemoryBegin) -> None:
    for call in (
        lambda: say(begin),
        lambda: CloseSession(begin)(tenant="acme", session_id="42"),
        lambda: propose(begin),
        lambda: AcceptHypothesis(begin)(tenant="acme", hypothesis_id="h1", reviewer="reviewer-1"),
        lambda: EraseProfile(begin)(tenant="acme", user="user-1", competence="design", reason="asked"),
        lambda: ActivateTemplate(begin)(tenant="acme", name="kickoff", number=1),
    ):
        with pytest.raises(NotFound):
            call()
    assert types(begin) == []


def test_g07_a_closed_session_refuses_messages_but_its_analysts_may_still_write(begin: MemoryBegin) -> None:
    open_session(begin)
    (said,) = say(begin)
    CloseSessionAbnormally(begin)(tenant="acme", session_id="42", cause=Cause.CRASHED)

    with pytest.raises(SessionNotActive):
        say(begin, "m2")
    assert propose(begin, evidence=[said.id]).event.evidence == (
        Evidence(event_id=said.id, session="42", version=said.version),
    )


def test_g26_evidence_that_is_missing_or_of_another_session_is_left_out(begin: MemoryBegin) -> None:
    open_session(begin)
    open_session(begin, "43")
    theirs = open_session(begin, "42", tenant="umbrella")
    (said,) = say(begin)
    (other,) = say(begin, session_id="43")

    proposed = propose(begin, evidence=[other.id, said.id, uuid4(), theirs.id, said.id])
    alone = propose(begin, "h2", evidence=[other.id])

    assert [each.event_id for each in proposed.event.evidence] == [said.id]
    assert alone.event.evidence == ()
    assert proposed.subject == "user-1"


def test_a_hypothesis_is_decided_once(begin: MemoryBegin) -> None:
    open_session(begin)
    propose(begin)
    propose(begin, "h2")
    AcceptHypothesis(begin)(tenant="acme", hypothesis_id="h1", reviewer="reviewer-1")
    DismissHypothesis(begin)(tenant="acme", hypothesis_id="h2", reviewer="reviewer-1", reason="No")

    with pytest.raises(Conflict):
        DismissHypothesis(begin)(tenant="acme", hypothesis_id="h1", reviewer="reviewer-1", reason="No")
    with pytest.raises(Conflict):
        propose(begin)


def test_a_profile_is_recorded_again_and_erased(begin: MemoryBegin) -> None:
    open_session(begin)
    (said,) = say(begin)
    for level in (2, 4):
        recorded = RecordProfile(begin)(
            tenant="acme", user="user-1", competence="design", level=level, statement="Draws", session_id="42",
            evidence=[said.id, uuid4()],
        )  # fmt: skip
    erase = EraseProfile(begin)

    assert (recorded.version, recorded.event.level, len(recorded.event.evidence)) == (2, 4, 1)
    assert len(erase(tenant="acme", user="user-1", competence="design", reason="asked")) == 1
    assert erase(tenant="acme", user="user-1", competence="design", reason="asked") == ()


def test_a_competence_outside_the_catalogue_stores_nothing(begin: MemoryBegin) -> None:
    with pytest.raises(RuleBroken, match="catalogue"):
        RecordProfile(begin)(
            tenant="acme", user="user-1", competence="health", level=1, statement="Ill", session_id="42"
        )
    assert types(begin) == []


def test_g49_publishing_twice_changes_nothing(begin: MemoryBegin) -> None:
    publish = PublishTemplate(begin)
    for body in ("Be kind", "Be kind", "Be brief"):
        publish(tenant="acme", name="kickoff", language="en", body=body)
    activate = ActivateTemplate(begin)

    assert len(activate(tenant="acme", name="kickoff", number=2)) == 1
    assert activate(tenant="acme", name="kickoff", number=2) == ()
    assert types(begin) == ["template.version_published"] * 2 + ["template.activated"]


def test_who_did_it_is_part_of_every_event(begin: MemoryBegin) -> None:
    open_session(begin)
    meta = Meta(actor="reviewer-1", correlation=uuid4())

    (closed,) = CloseSession(begin)(tenant="acme", session_id="42", meta=meta)

    assert closed.meta == meta


def park(begin: MemoryBegin) -> Row:
    """Two handoff offers, the first parked, the second behind it."""
    open_session(begin)
    for agent in ("designer", "analyst"):
        OfferHandoff(begin)(tenant="acme", session_id="42", to_agent=agent, reason="why not")
    head, behind = (each for each in begin.state.rows if each.aggregate_type == "graph_projection")
    begin.park(head.id, behind.id)
    return head


def pending(begin: MemoryBegin) -> list[int]:
    return [each.position for each in begin.state.rows
            if each.aggregate_type == "graph_projection" and not each.processed and each.parked_at is None]  # fmt: skip


def test_a_parked_row_is_tried_again_with_the_rest_of_its_stream(begin: MemoryBegin) -> None:
    head = park(begin)
    assert pending(begin) == []

    assert RetryParkedRow(begin)(row=head.id) == 2
    assert pending(begin) == [2, 3]
    with pytest.raises(NotFound):
        RetryParkedRow(begin)(row=head.id)


def test_a_skipped_row_is_an_event_with_its_reason(begin: MemoryBegin) -> None:
    head = park(begin)

    assert SkipParkedRow(begin)(row=head.id, reason="poison", operator="reviewer-1") == 1
    assert pending(begin) == [3]
    skipped = begin.state.events[-1]
    assert (skipped.type, skipped.stream.name, skipped.meta.actor) == (
        "projection.row_skipped", "projection-graph", "reviewer-1",
    )  # fmt: skip


def test_a_row_is_not_skipped_without_a_reason(begin: MemoryBegin) -> None:
    head = park(begin)

    with pytest.raises(RuleBroken, match="reason"):
        SkipParkedRow(begin)(row=head.id, reason="", operator="reviewer-1")
    assert pending(begin) == []
