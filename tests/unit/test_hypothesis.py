"""Decisions about a hypothesis: proposed, then accepted or dismissed, once."""

from uuid import UUID

import pytest

from app.domain import hypothesis
from app.domain.errors import Conflict, NotFound, RuleBroken
from app.domain.events import Evidence
from app.domain.hypothesis import HypothesisAccepted, HypothesisDismissed, HypothesisProposed, Status

SEEN = Evidence(event_id=UUID(int=1), session="42", version=2)
ALSO_SEEN = Evidence(event_id=UUID(int=2), session="42", version=3)
PROPOSED = HypothesisProposed(
    session="42", agent="assistant", user="user-1", evidence=(SEEN,), description="Is in a hurry"
)
ACCEPTED = HypothesisAccepted(reviewer="reviewer-1")
DISMISSED = HypothesisDismissed(reviewer="reviewer-1", user="user-1", reason="She is not")


def test_a_hypothesis_keeps_each_piece_of_evidence_once_in_its_order() -> None:
    (proposed,) = hypothesis.propose(
        session="42", agent="assistant", user="user-1", description="Shy", evidence=[ALSO_SEEN, SEEN, ALSO_SEEN]
    )

    assert isinstance(proposed, HypothesisProposed)
    assert proposed.evidence == (ALSO_SEEN, SEEN)


def test_g26_a_hypothesis_may_stand_without_evidence() -> None:
    (proposed,) = hypothesis.propose(session="42", agent="a", user="user-1", description="Shy", evidence=[])

    assert isinstance(proposed, HypothesisProposed)
    assert proposed.evidence == ()


@pytest.mark.parametrize("description", ["", "a\x00", "\ud800"])
def test_a_description_that_cannot_be_kept_is_refused(description: str) -> None:
    with pytest.raises(RuleBroken, match="description"):
        hypothesis.propose(session="42", agent="a", user="user-1", description=description, evidence=[])


def test_a_proposed_hypothesis_is_accepted_or_dismissed() -> None:
    proposed = hypothesis.fold([PROPOSED])

    assert hypothesis.accept(proposed, reviewer="reviewer-1") == (ACCEPTED,)
    assert hypothesis.dismiss(proposed, reviewer="reviewer-1", reason="She is not") == (DISMISSED,)


@pytest.mark.parametrize("decision", [ACCEPTED, DISMISSED])
def test_a_decision_is_made_once(decision: HypothesisAccepted | HypothesisDismissed) -> None:
    decided = hypothesis.fold([PROPOSED, decision])

    with pytest.raises(Conflict, match="already"):
        hypothesis.accept(decided, reviewer="eve")
    with pytest.raises(Conflict, match="already"):
        hypothesis.dismiss(decided, reviewer="eve", reason="No")


def test_the_state_follows_the_events() -> None:
    state = hypothesis.fold([PROPOSED, DISMISSED])

    assert (state.version, state.user, state.status) == (2, "user-1", Status.DISMISSED)


def test_a_damaged_or_missing_history_is_named() -> None:
    with pytest.raises(RuleBroken, match="cannot begin with HypothesisAccepted"):
        hypothesis.fold([ACCEPTED])
    with pytest.raises(NotFound):
        hypothesis.fold([])
