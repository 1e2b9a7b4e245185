"""Decisions about a session: given events, when a decision, then events or an error."""

from collections.abc import Callable

import pytest

from app.domain import session
from app.domain.errors import Conflict, NotFound, RuleBroken, SessionNotActive
from app.domain.session import (
    Cause,
    HandoffAccepted,
    HandoffOffered,
    MessageAccepted,
    Session,
    SessionClosed,
    SessionClosedAbnormally,
    SessionEvent,
    SessionOpened,
    TurnClosed,
)

OPENED = SessionOpened(user="user-1", project="retold", agent="assistant")
SAID = MessageAccepted(message="m1", user="user-1", text="Hello")
ANSWERED = TurnClosed(turn=1, message="m1", agent="assistant", user="user-1", question="Hello", answer="Hi")
OFFERED = HandoffOffered(from_agent="assistant", to_agent="designer", project="retold", user="user-1", reason="a form")
CLOSED = SessionClosed(user="user-1", project="retold", turns=0, first=None, last=None)


def given(*events: SessionEvent) -> Session:
    return session.fold(events)


def test_a_session_opens_with_its_user_project_and_agent() -> None:
    assert session.open_session(user="user-1", project="retold", agent="assistant") == (OPENED,)


@pytest.mark.parametrize("name", ["", " user-1", "user-1\n", "a\x00b", "a\ud800", "a" * 201])
def test_x27_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(RuleBroken, match="user"):
        session.open_session(user=name, project="retold", agent="assistant")
    with pytest.raises(RuleBroken, match="session"):
        session.stream("acme", name)


def test_a_message_is_accepted_with_its_words() -> None:
    assert session.accept_message(given(OPENED), message="m1", text="Hello") == (SAID,)


def test_x02_equal_texts_with_different_ids_are_two_messages() -> None:
    assert session.accept_message(given(OPENED, SAID), message="m2", text="Hello") == (
        MessageAccepted(message="m2", user="user-1", text="Hello"),
    )


@pytest.mark.parametrize("history", [(OPENED, SAID), (OPENED, SAID, ANSWERED), (OPENED, SAID, CLOSED)])
def test_w17_the_same_message_again_is_no_second_one(history: tuple[SessionEvent, ...]) -> None:
    assert session.accept_message(given(*history), message="m1", text="Hello") == ()


def test_w18_the_same_id_with_another_text_is_a_conflict() -> None:
    with pytest.raises(Conflict, match="another text"):
        session.accept_message(given(OPENED, SAID), message="m1", text="Bye")


@pytest.mark.parametrize("text", ["a\x00b", "\x00", "a\ud800b", "\udfff"])
def test_t33_nul_and_lone_surrogates_are_refused(text: str) -> None:
    with pytest.raises(RuleBroken, match=r"NUL|surrogate"):
        session.accept_message(given(OPENED), message="m1", text=text)
    with pytest.raises(RuleBroken, match=r"NUL|surrogate"):
        session.close_turn(given(OPENED, SAID), message="m1", answer=text)


@pytest.mark.parametrize("text", ["  a\r\n", "e\u0301", "\u00e9", "👩‍👩‍👧", "\u202eabc", "a" * 2**20, " "])
def test_t33_every_other_text_is_kept_as_it_is(text: str) -> None:
    (accepted,) = session.accept_message(given(OPENED), message="m1", text=text)

    assert isinstance(accepted, MessageAccepted)
    assert accepted.text == text


def test_t14_an_empty_text_is_refused() -> None:
    with pytest.raises(RuleBroken, match="empty"):
        session.accept_message(given(OPENED), message="m1", text="")


def test_t04_a_closed_turn_holds_question_and_answer_together() -> None:
    assert session.close_turn(given(OPENED, SAID), message="m1", answer="Hi") == (ANSWERED,)


def test_a_turn_is_closed_once_and_only_for_a_message_that_exists() -> None:
    with pytest.raises(Conflict, match="closed already"):
        session.close_turn(given(OPENED, SAID, ANSWERED), message="m1", answer="Hi")
    with pytest.raises(NotFound, match="m7"):
        session.close_turn(given(OPENED, SAID), message="m7", answer="Hi")


def test_turns_are_numbered_in_the_order_of_their_closing() -> None:
    second = MessageAccepted(message="m2", user="user-1", text="Again")

    (closed,) = session.close_turn(given(OPENED, SAID, second, ANSWERED), message="m2", answer="Yes")

    assert isinstance(closed, TurnClosed)
    assert closed.turn == 2


def test_a_session_is_handed_to_another_agent() -> None:
    assert session.offer_handoff(given(OPENED), to_agent="designer", reason="a form") == (OFFERED,)
    assert session.accept_handoff(given(OPENED, OFFERED), offer=2, agent="designer") == (
        HandoffAccepted(offer=2, agent="designer"),
    )
    assert given(OPENED, OFFERED, HandoffAccepted(offer=2, agent="designer")).agent == "designer"


def test_a_session_is_not_handed_to_the_agent_that_has_it() -> None:
    with pytest.raises(RuleBroken, match="has the session already"):
        session.offer_handoff(given(OPENED), to_agent="assistant", reason="none")


def test_a_handoff_is_accepted_once_and_by_whom_it_was_offered_to() -> None:
    with pytest.raises(RuleBroken, match="offered to 'designer'"):
        session.accept_handoff(given(OPENED, OFFERED), offer=2, agent="analyst")
    with pytest.raises(NotFound, match="version 7"):
        session.accept_handoff(given(OPENED, OFFERED), offer=7, agent="designer")
    with pytest.raises(NotFound, match="version 2"):
        session.accept_handoff(
            given(OPENED, OFFERED, HandoffAccepted(offer=2, agent="designer")), offer=2, agent="designer"
        )


def test_an_accepted_handoff_settles_the_offers_beside_it() -> None:
    other = HandoffOffered(
        from_agent="assistant", to_agent="analyst", project="retold", user="user-1", reason="numbers"
    )

    with pytest.raises(NotFound, match="version 3"):
        session.accept_handoff(
            given(OPENED, OFFERED, other, HandoffAccepted(offer=2, agent="designer")), offer=3, agent="analyst"
        )


def test_closing_counts_the_turns_and_names_the_window_of_the_conversation() -> None:
    assert session.close_session(given(OPENED, SAID, ANSWERED)) == (
        SessionClosed(user="user-1", project="retold", turns=1, first=2, last=3),
    )


def test_g27_a_session_without_a_word_closes_without_a_window() -> None:
    assert session.close_session(given(OPENED)) == (CLOSED,)


@pytest.mark.parametrize("cause", Cause)
def test_a_session_that_ended_otherwise_keeps_its_cause(cause: Cause) -> None:
    assert session.close_abnormally(given(OPENED, SAID), cause=cause) == (
        SessionClosedAbnormally(user="user-1", project="retold", turns=0, first=2, last=2, cause=cause),
    )


@pytest.mark.parametrize(
    "end",
    [CLOSED, SessionClosedAbnormally(user="user-1", project="p", turns=0, first=None, last=None, cause=Cause.CRASHED)],
)
def test_g07_a_closed_session_refuses_conversation_events(end: SessionEvent) -> None:
    closed = given(OPENED, SAID, OFFERED, end)

    decisions: tuple[Callable[[], object], ...] = (
        lambda: session.accept_message(closed, message="m2", text="Hello?"),
        lambda: session.close_turn(closed, message="m1", answer="Hi"),
        lambda: session.offer_handoff(closed, to_agent="analyst", reason="numbers"),
        lambda: session.accept_handoff(closed, offer=3, agent="designer"),
        lambda: session.close_session(closed),
        lambda: session.close_abnormally(closed, cause=Cause.FAILED),
    )
    for decide in decisions:
        with pytest.raises(SessionNotActive) as refused:
            decide()
        assert refused.value.code == "session_not_active"


def test_x18_a_session_whose_words_are_erased_can_still_be_folded_and_closed() -> None:
    erased = MessageAccepted(message="m1", user="user-1", text=None)

    assert session.close_session(given(OPENED, erased)) == (
        SessionClosed(user="user-1", project="retold", turns=0, first=2, last=2),
    )


def test_a_history_that_does_not_begin_with_the_opening_is_damaged() -> None:
    with pytest.raises(RuleBroken, match="cannot begin with MessageAccepted"):
        given(SAID)
    with pytest.raises(NotFound):
        given()


def test_x18_a_message_whose_words_were_erased_counts_as_accepted_when_it_comes_again() -> None:
    erased = session.fold(
        [
            session.SessionOpened(user="user-1", project="atlas", agent="assistant"),
            session.MessageAccepted(message="m1", user="user-1", text=None),
        ]
    )
    assert session.accept_message(erased, message="m1", text="Hello") == ()
