"""Decisions about a profile: a closed catalogue, the last value wins, and it can be erased."""

import pytest

from app.domain import profile
from app.domain.errors import NotFound, RuleBroken
from app.domain.profile import COMPETENCES, ProfileErased, ProfileRecorded

RECORDED = ProfileRecorded(user="user-1", competence="design", level=3, evidence=(), statement="Draws well")
ERASED = ProfileErased(user="user-1", competence="design", reason="asked for it")


def test_a_profile_is_recorded() -> None:
    assert profile.record(user="user-1", competence="design", level=3, statement="Draws well", evidence=[]) == (
        RECORDED,
    )


@pytest.mark.parametrize("competence", ["health", "personality", "age", "gender", "", "Design", "design/x"])
def test_what_is_not_in_the_catalogue_has_no_way_in(competence: str) -> None:
    with pytest.raises(RuleBroken, match="not in the catalogue"):
        profile.stream("acme", "user-1", competence)


@pytest.mark.parametrize("level", [0, 6, -1])
def test_a_level_off_the_scale_is_refused(level: int) -> None:
    with pytest.raises(RuleBroken, match="from 1 to 5"):
        profile.record(user="user-1", competence="design", level=level, statement="Draws", evidence=[])


def test_users_and_competences_never_share_a_stream() -> None:
    streams = {
        profile.stream("acme", user, competence).name
        for user in ("user-1", "design/user-1", "a-b")
        for competence in COMPETENCES
    }

    assert len(streams) == 3 * len(COMPETENCES)


def test_a_profile_is_erased_once_and_may_be_recorded_again() -> None:
    recorded = profile.fold([RECORDED])
    assert profile.erase(recorded, user="user-1", competence="design", reason="asked for it") == (ERASED,)

    erased = profile.fold([RECORDED, ERASED])
    assert profile.erase(erased, user="user-1", competence="design", reason="asked for it") == ()

    assert profile.fold([RECORDED, ERASED, RECORDED]).erased is False


def test_a_profile_that_never_was_is_not_found() -> None:
    with pytest.raises(NotFound):
        profile.fold([])
