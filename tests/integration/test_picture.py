"""The picture of the graph that people look at: the first few of everything, and how many there are."""

from datetime import timedelta

import pytest

from app.cli.tree import tree_of
from app.infrastructure.graph.client import GraphClient
from app.infrastructure.graph.endpoint import GraphEndpoint
from app.infrastructure.graph.picture import Handoff, Interaction, Picture, Profile, Template, picture
from seeds.crowd import crowd
from seeds.demo import DEMO
from seeds.sow import sow
from tests.projecting import projecting, writing

pytestmark = pytest.mark.graph


@pytest.fixture
def told(database: str, empty_graph: GraphEndpoint) -> GraphEndpoint:
    """The graph after the demo data of one tenant and a crowd of another."""
    with writing(database) as product:
        sow(product, DEMO, tenant="acme")
        sow(product, crowd(3), tenant="other")
    # A Neo4j that has just started plans its first statements for seconds.
    with projecting(database, empty_graph, graph_timeout=60) as parts:
        parts.projector.drain()
    return empty_graph


def look(graph: GraphEndpoint, *, limit: int = 10, tenant: str = "acme") -> Picture:
    timeout = timedelta(seconds=60)
    with GraphClient(graph, timeout=timeout, connect_timeout=timeout) as client:
        return picture(client, tenant=tenant, limit=limit)


def test_a_session_is_shown_with_all_that_hangs_on_it(told: GraphEndpoint) -> None:
    ferry, library = look(told).projects
    delays, winter, ramp = ferry.sessions

    assert (ferry.id, ferry.total, library.id) == ("ferry-timetable", 3, "library-search")
    assert (delays.users, delays.status, delays.interaction) == (("user-1",), "closed", Interaction(2, 11, 3))
    assert [(each.source, each.target) for each in delays.handoffs] == [
        ("assistant", "query_analyst"),
        ("query_analyst", "assistant"),
    ]
    (hypothesis,) = delays.hypotheses
    assert (hypothesis.status, hypothesis.evidence) == ("accepted", 3)
    assert (ramp.status, ramp.cause) == ("closed_abnormally", "timed_out")
    assert winter.handoffs == (
        Handoff("assistant", "ux_designer", "A pessoa lê no telemóvel, de pé e à chuva; pede letras maiores."),
    )


def test_an_erased_profile_is_not_shown_and_the_last_level_wins(told: GraphEndpoint) -> None:
    assert look(told).profiles == (Profile("user-1", "data", 3, 2), Profile("user-2", "design", 4, 2))


def test_templates_are_shown_with_the_active_version(told: GraphEndpoint) -> None:
    assert look(told).templates == (Template("anamnesis-kickoff", 1, 2), Template("psychologist-kickoff", 2, 2))


def test_a_picture_is_bounded_and_says_how_many_there_are(told: GraphEndpoint) -> None:
    ferry = look(told, limit=1).projects[0]

    assert (len(ferry.sessions), ferry.total) == (1, 3)
    assert look(told, limit=0) == Picture((), (), ())


def test_another_tenant_is_not_part_of_it(told: GraphEndpoint) -> None:
    (theirs,) = look(told, tenant="other").projects

    assert (theirs.id, theirs.total) == ("night-shift", 3)
    assert look(told, tenant="nobody") == Picture((), (), ())


def test_the_tree_takes_words_as_words(told: GraphEndpoint) -> None:
    labels = [str(each.label) for each in tree_of(look(told)).children]

    assert labels == ["ferry-timetable, 3 sessions", "library-search, 2 sessions", "profiles", "templates"]
