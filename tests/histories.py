"""Builds histories of events for tests: by hand, one event after the other, or at random, always in a valid order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from app.domain import hypothesis, profile, session, template
from app.domain.events import Evidence, Meta, Recorded, Stream
from projector import projections
from projector.fold import Graph

BEGINNING = datetime(2026, 1, 2, 3, 4, 5, 678912, tzinfo=UTC)
TYPES = {
    session.SessionOpened: "session.opened",
    session.HandoffOffered: "session.handoff_offered",
    session.HandoffAccepted: "session.handoff_accepted",
    session.SessionClosed: "session.closed",
    session.SessionClosedAbnormally: "session.closed_abnormally",
    hypothesis.HypothesisProposed: "hypothesis.proposed",
    hypothesis.HypothesisAccepted: "hypothesis.accepted",
    hypothesis.HypothesisDismissed: "hypothesis.dismissed",
    profile.ProfileRecorded: "profile.recorded",
    profile.ProfileErased: "profile.erased",
    template.TemplateVersionPublished: "template.version_published",
    template.TemplateActivated: "template.activated",
}


@dataclass
class History:
    """A log in memory: gives every event its position, and its version within its stream."""

    tenant: str = "acme"
    events: list[Recorded] = field(default_factory=list)
    _versions: dict[Stream, int] = field(default_factory=dict)

    def add(self, stream: Stream, event: Any) -> Recorded:
        version = self._versions[stream] = self._versions.get(stream, 0) + 1
        position = len(self.events) + 1
        recorded = Recorded(
            position=position,
            id=UUID(int=position),
            stream=stream,
            version=version,
            type=TYPES[type(event)],
            schema=1,
            event=event,
            subject=getattr(event, "user", None),
            meta=Meta(),
            recorded_at=BEGINNING + timedelta(seconds=position, microseconds=position),
        )
        self.events.append(recorded)
        return recorded

    def open(self, id: str = "42", *, user: str = "ada", project: str = "atlas") -> Recorded:
        return self.add(self._session(id), session.SessionOpened(user=user, project=project, agent="guide"))

    def hand_off(
        self,
        id: str = "42",
        *,
        frm: str = "guide",
        to: str = "clerk",
        user: str = "ada",
        project: str = "atlas",
        reason: str | None = "knows refunds",
    ) -> Recorded:
        offer = session.HandoffOffered(from_agent=frm, to_agent=to, project=project, user=user, reason=reason)
        return self.add(self._session(id), offer)

    def close(
        self, id: str = "42", *, user: str = "ada", project: str = "atlas", turns: int = 1, last: int | None = 3
    ) -> Recorded:
        first = None if last is None else 2
        return self.add(
            self._session(id),
            session.SessionClosed(user=user, project=project, turns=turns, first=first, last=last),
        )

    def crash(self, id: str = "42", *, last: int | None = 3) -> Recorded:
        first = None if last is None else 2
        cause = session.Cause.CRASHED
        return self.add(
            self._session(id),
            session.SessionClosedAbnormally(user="ada", project="atlas", turns=0, first=first, last=last, cause=cause),
        )

    def propose(
        self, id: str = "h1", *, about: str = "42", agent: str = "guide", evidence: Sequence[Evidence] = ()
    ) -> Recorded:
        proposed = hypothesis.HypothesisProposed(
            session=about, agent=agent, user="ada", evidence=tuple(evidence), description="is in a hurry"
        )
        return self.add(self._hypothesis(id), proposed)

    def accept(self, id: str = "h1") -> Recorded:
        return self.add(self._hypothesis(id), hypothesis.HypothesisAccepted(reviewer="bo"))

    def dismiss(self, id: str = "h1", *, reason: str | None = "not so") -> Recorded:
        return self.add(self._hypothesis(id), hypothesis.HypothesisDismissed(reviewer="bo", user="ada", reason=reason))

    def record(
        self,
        user: str = "ada",
        competence: str = "backend",
        *,
        level: int = 3,
        statement: str | None = "writes services",
        evidence: Sequence[Evidence] = (),
    ) -> Recorded:
        recorded = profile.ProfileRecorded(
            user=user, competence=competence, level=level, evidence=tuple(evidence), statement=statement
        )
        return self.add(self._profile(user, competence), recorded)

    def erase(self, user: str = "ada", competence: str = "backend") -> Recorded:
        erased = profile.ProfileErased(user=user, competence=competence, reason="asked")
        return self.add(self._profile(user, competence), erased)

    def publish(self, name: str = "kickoff", number: int = 1, *, body: str = "Hello {{name}}") -> Recorded:
        published = template.TemplateVersionPublished(number=number, language="en", hash=f"hash-{number}", body=body)
        return self.add(self._template(name), published)

    def activate(self, name: str = "kickoff", number: int = 1) -> Recorded:
        return self.add(self._template(name), template.TemplateActivated(number=number))

    def _session(self, id: str) -> Stream:
        return Stream(self.tenant, "session", id)

    def _hypothesis(self, id: str) -> Stream:
        return Stream(self.tenant, "hypothesis", id)

    def _profile(self, user: str, competence: str) -> Stream:
        return Stream(self.tenant, "profile", f"{competence}/{user}")

    def _template(self, name: str) -> Stream:
        return Stream(self.tenant, "template", name)


def evidence(number: int = 1, *, of: str = "42", version: int = 2) -> Evidence:
    """The event with this number, in a session."""
    return Evidence(UUID(int=number), of, version)


def project(graph: Graph, events: Sequence[Recorded]) -> Graph:
    """`graph` itself, with `events` folded in, in the order in which they come."""
    for each in events:
        graph.apply(projections.changes(each) or (), position=each.position, version=each.version)
    return graph


def folded(events: Sequence[Recorded]) -> Graph:
    """The graph that `events` tell."""
    return project(Graph(), events)


_sessions = st.sampled_from(["s1", "s/2"])
_agents = st.sampled_from(["guide", "clerk", "judge"])
_users = st.sampled_from(["ada", "b%2Fo"])
_competences = st.sampled_from(["backend", "design"])
_evidence = st.lists(st.builds(evidence, st.integers(1, 3), of=_sessions), max_size=2, unique=True)


@st.composite
def histories(draw: st.DrawFn, *, longest: int = 25) -> list[Recorded]:
    """A history of several streams, as decisions allow it: nothing follows on a closed session, a version that is
    activated was published, and so on."""
    history = History()
    state = _State()
    for _ in range(draw(st.integers(1, longest))):
        state.step(draw, history)
    return history.events


@dataclass
class _State:
    closed: set[str] = field(default_factory=set)
    proposed: int = 0
    decided: set[str] = field(default_factory=set)
    published: int = 0

    def step(self, draw: st.DrawFn, history: History) -> None:
        draw(st.sampled_from(list(self._possible(draw, history))))()

    def _possible(self, draw: st.DrawFn, history: History) -> Iterator[Callable[[], object]]:
        id = draw(_sessions)
        if id not in self.closed:
            yield lambda: history.hand_off(id, frm=draw(_agents), to=draw(_agents), user=draw(_users))
            yield lambda: self._close(history, id, crashed=draw(st.booleans()))
        yield lambda: history.record(
            draw(_users), draw(_competences), level=draw(st.integers(1, 5)), evidence=draw(_evidence)
        )
        yield lambda: history.erase(draw(_users), draw(_competences))
        yield lambda: self._propose(history, about=id, cited=draw(_evidence))
        if undecided := sorted({f"h{each}" for each in range(1, self.proposed + 1)} - self.decided):
            yield lambda: self._decide(history, draw(st.sampled_from(undecided)), accept=draw(st.booleans()))
        yield lambda: self._publish(history)
        if self.published:
            yield lambda: history.activate(number=draw(st.integers(1, self.published)))

    def _close(self, history: History, id: str, *, crashed: bool) -> None:
        self.closed.add(id)
        if crashed:
            history.crash(id)
        else:
            history.close(id)

    def _propose(self, history: History, *, about: str, cited: Sequence[Evidence]) -> None:
        self.proposed += 1
        history.propose(f"h{self.proposed}", about=about, evidence=cited)

    def _decide(self, history: History, id: str, *, accept: bool) -> None:
        self.decided.add(id)
        if accept:
            history.accept(id)
        else:
            history.dismiss(id, reason=None)

    def _publish(self, history: History) -> None:
        self.published += 1
        history.publish(number=self.published)


@st.composite
def shuffled_across_streams(draw: st.DrawFn, events: Sequence[Recorded]) -> list[Recorded]:
    """The same events with the streams dealt into each other anew; within a stream they stay in order."""
    order = [each.stream for each in draw(st.permutations(list(events)))]
    queues: dict[Stream, list[Recorded]] = {}
    for each in events:
        queues.setdefault(each.stream, []).append(each)
    return [queues[stream].pop(0) for stream in order]


@st.composite
def batches(draw: st.DrawFn, events: Sequence[Recorded], *, repeats: bool = True) -> list[list[Recorded]]:
    """The events cut into batches; with `repeats` a batch may come again, as after a crash before it was marked."""
    cut: list[list[Recorded]] = []
    rest = list(events)
    while rest:
        size = draw(st.integers(1, len(rest)))
        cut.append(rest[:size])
        if repeats and draw(st.booleans()):
            cut.append(rest[:size])
        rest = rest[size:]
    return cut
