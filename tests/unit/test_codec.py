"""Stored forms of events: names, schemas, the way up from old ones, what is erased, what is refused."""

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import session
from app.domain.errors import RuleBroken
from app.domain.events import PERSONAL, SUBJECT, Evidence, Unknown
from app.infrastructure.postgres.codec import EVENT_TYPES, Codec, EventType, SchemaTooNew, json_text


class Mood(StrEnum):
    CALM = "calm"
    WILD = "wild"


@dataclass(frozen=True, slots=True)
class Felt:
    """Schema 3; schema 1 had `name`, schema 2 had no `mood`."""

    person: str = field(metadata=SUBJECT)
    strength: int
    mood: Mood
    because: tuple[Evidence, ...]
    words: str | None = field(metadata=PERSONAL)


@dataclass(frozen=True, slots=True)
class Slept:
    hours: int | None


def rename(values: dict[str, Any]) -> dict[str, Any]:
    values = {**values, "person": values["name"]}
    del values["name"]
    if "said" in values:
        values["words"] = values.pop("said")
    return values


def add_mood(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "mood": "calm"}


FELT = EventType("person.felt", 3, Felt, ("task",), {1: rename, 2: add_mood})
SLEPT = EventType("person.slept", 1, Slept, ("task",))
CODEC = Codec((FELT, SLEPT))
ANN = Felt(person="user-1", strength=2, mood=Mood.WILD, because=(Evidence(UUID(int=1), "42", 3),), words="Oh")


def there_and_back(codec: Codec, event: object) -> object:
    encoded = codec.encode(event)
    personal = None if encoded.personal is None else json_text(encoded.personal)
    return codec.decode(encoded.type.name, encoded.type.schema, json_text(encoded.data), personal)


def test_an_event_is_split_into_facts_and_words_of_a_person() -> None:
    encoded = CODEC.encode(ANN)

    assert (encoded.type, encoded.personal, encoded.subject) == (FELT, {"words": "Oh"}, "user-1")
    assert json.loads(json_text(encoded.data)) == {
        "person": "user-1",
        "strength": 2,
        "mood": "wild",
        "because": [{"event_id": str(UUID(int=1)), "session": "42", "version": 3}],
    }
    assert there_and_back(CODEC, ANN) == ANN


def test_words_that_are_none_are_not_the_same_as_erased_words() -> None:
    silent = replace(ANN, words=None)

    assert CODEC.encode(silent).personal == {"words": None}
    assert there_and_back(CODEC, silent) == silent
    assert CODEC.encode(Slept(hours=None)).personal is None


def test_erased_words_are_none() -> None:
    assert CODEC.decode("person.felt", 3, json_text(CODEC.encode(ANN).data), None) == replace(ANN, words=None)


def test_an_old_schema_is_brought_up_step_by_step() -> None:
    data = '{"name": "user-1", "strength": 2, "because": []}'

    expected = Felt(person="user-1", strength=2, mood=Mood.CALM, because=(), words="Oh")
    assert CODEC.decode("person.felt", 1, data, '{"said": "Oh"}') == expected
    assert CODEC.decode("person.felt", 1, data, None) == replace(expected, words=None)
    newer = '{"person": "user-1", "strength": 2, "because": []}'
    assert CODEC.decode("person.felt", 2, newer, '{"words": "Oh"}') == expected


def test_g13_an_unknown_type_is_kept_as_it_is() -> None:
    assert CODEC.decode("robot.awoke", 9, '{"at": 7}', None) == Unknown({"at": 7})


def test_a_schema_from_the_future_is_refused() -> None:
    with pytest.raises(SchemaTooNew, match=r"person\.felt has schema 4, this Retold knows 3"):
        CODEC.decode("person.felt", 4, "{}", None)


@pytest.mark.parametrize(
    "data",
    ['{"person": "user-1"}', '{"person": 7, "strength": 2, "mood": "wild", "because": []}'],
    ids=["missing", "wrong type"],
)
def test_damaged_columns_are_named_and_their_values_are_not(data: str) -> None:
    with pytest.raises(RuleBroken, match=r"a stored person\.felt cannot be read: ") as refused:
        CODEC.decode("person.felt", 3, data, '{"words": "secret"}')
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("wrong", [{"strength": "two"}, {"words": b"Oh"}, {"mood": "odd"}])
def test_a_value_of_another_type_is_not_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(RuleBroken, match=r"person\.felt"):
        CODEC.encode(replace(ANN, **wrong))


def test_an_event_that_is_not_registered_is_not_written() -> None:
    with pytest.raises(RuleBroken, match="SessionOpened is not an event that the log knows"):
        CODEC.encode(session.SessionOpened(user="u", project="p", agent="a"))


def test_the_registry_of_retold_is_sound() -> None:
    Codec().check()
    assert [each.schema for each in EVENT_TYPES] == [1] * 15


@pytest.mark.parametrize(
    ("types", "complaint"),
    [
        ((FELT, replace(SLEPT, name="person.felt")), "name 'person.felt' is registered twice"),
        ((FELT, replace(FELT, name="person.felt_again")), "class 'Felt' is registered twice"),
        ((replace(FELT, upcasters={1: rename}),), "person.felt has schema 3 but no upcaster from 2 to 3"),
        ((replace(FELT, upcasters={2: add_mood}),), "person.felt has schema 3 but no upcaster from 1 to 2"),
        ((replace(FELT, upcasters={1: rename, 2: add_mood, 3: add_mood}),), r"person.felt .* from \[3\]"),
        ((replace(SLEPT, schema=0),), "person.slept has schema 0"),
        ((replace(SLEPT, routes=("mail",)),), r"person.slept goes to \['mail'\]"),
        ((replace(SLEPT, routes=()),), r"person.slept goes to \[\]"),
        ((replace(SLEPT, routes=("task", "task")),), "each once"),
    ],
)
def test_g11_a_registry_that_would_fail_later_refuses_to_start(types: tuple[EventType, ...], complaint: str) -> None:
    with pytest.raises(RuleBroken, match=complaint):
        Codec(types).check()


any_text = st.text(st.characters(exclude_categories=["Cs"]))


@given(person=any_text, strength=st.integers(-(2**63), 2**63), words=st.none() | any_text, mood=st.sampled_from(Mood))
def test_t33_whatever_goes_in_comes_out(person: str, strength: int, words: str | None, mood: Mood) -> None:
    event = Felt(person=person, strength=strength, mood=mood, because=(), words=words)

    assert there_and_back(CODEC, event) == event


@given(text=st.text())
def test_t33_text_comes_back_byte_for_byte_or_is_refused(text: str) -> None:
    event = replace(ANN, words=text)
    try:
        expected = text.encode()
    except UnicodeEncodeError:
        with pytest.raises(RuleBroken, match="valid Unicode"):
            there_and_back(CODEC, event)
    else:
        back = there_and_back(CODEC, event)
        assert isinstance(back, Felt)
        assert back.words is not None
        assert back.words.encode() == expected
