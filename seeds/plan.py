"""Turns a story into steps, one event each: how many events a stream has says which step comes next."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never
from uuid import UUID

from app.bootstrap import Retold
from app.domain import hypothesis, profile, session, template
from app.domain.events import Meta, Stream
from seeds.story import End, HandOver, HypothesisStory, ProfileStory, Say, SessionStory, Story, TemplateStory

META: Final = Meta(actor="seed")

Step = Callable[[Retold], object]


@dataclass(frozen=True, slots=True)
class Plan:
    """A stream as it is to be, event by event."""

    stream: Stream
    steps: tuple[Step, ...]


def plan(tenant: str, story: Story) -> Plan:
    match story:
        case SessionStory():
            return Plan(session.stream(tenant, story.id), tuple(_session(tenant, story)))
        case HypothesisStory():
            return Plan(hypothesis.stream(tenant, story.id), tuple(_hypothesis(tenant, story)))
        case ProfileStory():
            return Plan(profile.stream(tenant, story.user, story.competence), tuple(_profile(tenant, story)))
        case TemplateStory():
            return Plan(template.stream(tenant, story.name), tuple(_template(tenant, story)))
        case _:
            assert_never(story)


def _session(tenant: str, story: SessionStory) -> Iterator[Step]:
    opening = {"user": story.user, "project": story.project, "agent": story.agent}
    yield lambda retold: retold.open_session(tenant=tenant, session_id=story.id, meta=META, **opening)
    version = 1
    for number, line in enumerate(story.script, start=1):
        for step in _line(tenant, story.id, line, number, version):
            yield step
            version += 1


def _line(tenant: str, id_: str, line: Say | HandOver | End, number: int, version: int) -> Iterator[Step]:
    """The steps of the line `number` of a session that has reached `version`."""
    here = {"tenant": tenant, "session_id": id_}
    match line:
        case Say(question, answer):
            message = f"{id_}-{number}"
            yield lambda retold: retold.accept_message(**here, message=message, text=question, meta=META)
            if answer is not None:
                yield lambda retold: retold.close_turn(**here, message=message, answer=answer, meta=META)
        case HandOver(to, reason, accepted):
            yield lambda retold: retold.offer_handoff(**here, to_agent=to, reason=reason, meta=META)
            if accepted:
                yield lambda retold: retold.accept_handoff(**here, offer=version + 1, agent=to, meta=META)
        case End(None):
            yield lambda retold: retold.close_session(**here, meta=META)
        case End(cause):
            assert cause is not None
            yield lambda retold: retold.close_session_abnormally(**here, cause=cause, meta=META)
        case _:
            assert_never(line)


def _hypothesis(tenant: str, story: HypothesisStory) -> Iterator[Step]:
    here = {"tenant": tenant, "hypothesis_id": story.id}
    yield lambda retold: retold.propose_hypothesis(
        **here,
        session_id=story.session,
        agent=story.agent,
        description=story.description,
        evidence=_cited(retold, tenant, story.session, story.cites),
        meta=META,
    )
    if story.verdict is None:
        return
    reviewer, reason = story.verdict.reviewer, story.verdict.dismissed_for
    if reason is None:
        yield lambda retold: retold.accept_hypothesis(**here, reviewer=reviewer, meta=META)
    else:
        yield lambda retold: retold.dismiss_hypothesis(**here, reviewer=reviewer, reason=reason, meta=META)


def _profile(tenant: str, story: ProfileStory) -> Iterator[Step]:
    here = {"tenant": tenant, "user": story.user, "competence": story.competence}

    def record(level: int, statement: str, retold: Retold) -> object:
        cited = _cited(retold, tenant, story.session, story.cites)
        return retold.record_profile(
            **here, level=level, statement=statement, session_id=story.session, evidence=cited, meta=META
        )

    for level, statement in story.records:
        yield partial(record, level, statement)
    reason = story.erased_for
    if reason is not None:
        yield lambda retold: retold.erase_profile(**here, reason=reason, meta=META)


def _template(tenant: str, story: TemplateStory) -> Iterator[Step]:
    here = {"tenant": tenant, "name": story.name}

    def publish(body: str, retold: Retold) -> object:
        return retold.publish_template(**here, language=story.language, body=body, meta=META)

    def activate(number: int, retold: Retold) -> object:
        return retold.activate_template(**here, number=number, meta=META)

    for body in story.bodies:
        yield partial(publish, body)
    for number in story.active:
        yield partial(activate, number)


def _cited(retold: Retold, tenant: str, session_id: str, versions: tuple[int, ...]) -> list[UUID]:
    events = retold.log.stream(session.stream(tenant, session_id))
    return [each.id for each in events if each.version in versions]
