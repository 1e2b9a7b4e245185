"""As many made-up conversations as are asked for, the same ones every time: something for a batch to be in flight."""

from typing import Final

from app.domain.session import Cause
from seeds.story import End, HandOver, HypothesisStory, Say, SessionStory, Story

PROJECT: Final = "night-shift"
AGENTS: Final = ("assistant", "query_analyst", "ux_designer", "context_manager")
USERS: Final = 25
ONE_IN_ABNORMAL: Final = 20


def crowd(sessions: int) -> tuple[Story, ...]:
    """Each session is told in seven events, of which the graph shows three, and cited by a hypothesis."""
    return tuple(story for number in range(1, sessions + 1) for story in (_session(number), _hypothesis(number)))


def _session(number: int) -> SessionStory:
    first, second, third = (AGENTS[(number + turn) % len(AGENTS)] for turn in range(3))
    return SessionStory(
        id=f"night-{number:04}",
        project=PROJECT,
        user=f"user-{number % USERS + 1}",
        agent=first,
        script=(
            Say(f"Question {number} of the night 🌙", f"Answer {number}, as short as the question."),
            HandOver(second, f"Part {number % 7 + 1} of the answer belongs to another agent."),
            HandOver(third, "And who asks a third time hears it from a third.", accepted=False),
            End(Cause.CRASHED if number % ONE_IN_ABNORMAL == 0 else None),
        ),
    )


def _hypothesis(number: int) -> HypothesisStory:
    return HypothesisStory(
        id=f"night-{number:04}-handoffs",
        session=f"night-{number:04}",
        agent=AGENTS[number % len(AGENTS)],
        description=f"Conversation {number} needed two agents.",
        cites=(2, 4),
    )
