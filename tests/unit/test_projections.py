"""What each projection shows of an event: pure functions, without a graph."""

import pytest

from app.domain import events
from projector import projections, schema
from projector.changes import Change, Edge, Gone, Node, ref
from tests.histories import History, evidence, folded


def told(recorded: events.Recorded) -> tuple[Change, ...]:
    changes = projections.changes(recorded)
    assert changes is not None
    return changes


def edges(changes: tuple[Change, ...]) -> dict[str, tuple[str, str]]:
    return {each.type.name: (each.source.key, each.target.key) for each in changes if isinstance(each, Edge)}


def nodes(changes: tuple[Change, ...]) -> dict[str, Node]:
    return {each.ref.label: each for each in changes if isinstance(each, Node)}


def test_a_handoff_is_told_apart_by_session_and_version_of_the_offer() -> None:
    history = History()
    history.open()
    offer = history.hand_off()
    changes = told(offer)
    assert nodes(changes)["Handoff"] == Node(
        ref("Handoff", "acme", session="42", offer=2), {"reason": "knows refunds", "offered_at": offer.recorded_at}
    )
    assert nodes(changes)["Session"].properties == {"status": "open"}
    assert edges(changes) == {
        "IN_PROJECT": ("acme/42", "acme/atlas"),
        "OF_USER": ("acme/42", "acme/ada"),
        "HAS_HANDOFF": ("acme/42", "acme/42/2"),
        "FROM": ("acme/42/2", "acme/guide"),
        "TO": ("acme/42/2", "acme/clerk"),
    }


def test_an_erased_reason_is_absent_x18() -> None:
    assert nodes(told(History().hand_off(reason=None)))["Handoff"].properties["reason"] is None


def test_a_closed_session_has_its_window_of_versions() -> None:
    changes = told(History().close(turns=4, last=9))
    assert nodes(changes)["Interaction"].properties == {"first_version": 2, "last_version": 9, "turns": 4}
    assert nodes(changes)["Session"].properties["status"] == "closed"
    assert edges(changes)["HAS_INTERACTION"] == ("acme/42", "acme/42")


def test_a_session_closed_abnormally_says_why() -> None:
    properties = nodes(told(History().crash()))["Session"].properties
    assert (properties["status"], properties["cause"]) == ("closed_abnormally", "crashed")


@pytest.mark.parametrize("end", ["close", "crash"])
def test_a_session_closed_without_events_projects_nothing_g27(end: str) -> None:
    assert told(getattr(History(), end)("42", last=None)) == ()


def test_the_window_only_widens() -> None:
    history = History()
    history.close(last=9)
    wider = history.close(last=12)
    graph = folded([wider, *history.events])
    interaction = graph.nodes["Interaction", "acme/42"]
    assert (interaction.properties["first_version"], interaction.properties["last_version"]) == (2, 12)


def test_a_hypothesis_is_about_a_session_and_targets_an_agent() -> None:
    proposed = History().propose(evidence=[evidence(1), evidence(2)])
    changes = told(proposed)
    assert nodes(changes)["Hypothesis"].properties == {
        "status": "proposed",
        "description": "is in a hurry",
        "proposed_at": proposed.recorded_at,
    }
    assert edges(changes)["ABOUT_SESSION"] == ("acme/h1", "acme/42")
    assert edges(changes)["TARGETS"] == ("acme/h1", "acme/guide")
    assert sum(isinstance(each, Edge) and each.type is schema.HYPOTHESIS_SUPPORTED_BY for each in changes) == 2


def test_evidence_of_another_session_is_left_out_g26() -> None:
    changes = told(History().propose(evidence=[evidence(1), evidence(2, of="another")]))
    supported = [each for each in changes if isinstance(each, Edge) and each.type is schema.HYPOTHESIS_SUPPORTED_BY]
    assert [each.target.identity["session"] for each in supported] == ["42"]


def test_without_any_evidence_left_the_hypothesis_is_still_there_g26() -> None:
    changes = told(History().propose(evidence=[evidence(2, of="another")]))
    assert "SUPPORTED_BY" not in edges(changes)
    assert "Hypothesis" in nodes(changes)


def test_a_decision_overwrites_the_status_and_keeps_the_description() -> None:
    history = History()
    history.propose()
    history.dismiss()
    properties = folded(history.events).nodes["Hypothesis", "acme/h1"].properties
    assert properties["status"] == "dismissed"
    assert properties["dismissed_for"] == "not so"
    assert properties["description"] == "is in a hurry"


def test_the_last_value_of_a_profile_wins_and_its_evidence_adds_up() -> None:
    history = History()
    history.record(level=2, evidence=[evidence(1)])
    history.record(level=5, evidence=[evidence(2)])
    graph = folded(history.events)
    assert graph.nodes["Profile", "acme/ada/backend"].properties["level"] == 5
    assert sum(key[0] is schema.PROFILE_SUPPORTED_BY for key in graph.edges) == 2


def test_an_erased_profile_is_gone() -> None:
    assert told(History().erase()) == (Gone(ref("Profile", "acme", user="ada", competence="backend")),)


def test_a_template_has_its_versions_and_one_active() -> None:
    history = History()
    history.publish(number=1)
    history.publish(number=2)
    history.activate(number=2)
    history.activate(number=1)
    graph = folded(history.events)
    assert graph.nodes["Template", "acme/kickoff"].properties == {"newest": 2, "active": 1}
    assert [key[2] for key in graph.edges if key[0] is schema.ACTIVE] == ["acme/kickoff/1"]
    assert graph.nodes["TemplateVersion", "acme/kickoff/2"].properties["body"] == "Hello {{name}}"


def test_an_event_that_no_projection_shows_is_told_apart_from_one_that_changes_nothing_g24() -> None:
    assert projections.changes(History().open()) is None


def test_a_slash_in_an_id_is_no_border_between_two_parts_of_a_key() -> None:
    keys = {
        ref("Profile", "acme", user="a/b", competence="c").key,
        ref("Profile", "acme", user="a", competence="b/c").key,
        ref("Profile", "acme", user="a%2Fb", competence="c").key,
        ref("Profile", "acme/a", user="b", competence="c").key,
    }
    assert len(keys) == 4


def test_two_tenants_share_no_node_x26() -> None:
    graphs = []
    for tenant in ("acme", "bcme"):
        history = History(tenant)
        history.hand_off()
        history.record()
        graphs.append(folded(history.events))
    assert not graphs[0].nodes.keys() & graphs[1].nodes.keys()
