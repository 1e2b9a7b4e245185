"""Writes stories into the log: what is there stays, what was begun is finished, a second run changes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.bootstrap import Retold
from app.domain.errors import Conflict
from app.domain.events import Stream
from seeds.plan import Plan, plan
from seeds.story import Story

OnProgress = Callable[[int, int], None]
"""Told how many of how many streams are done."""


@dataclass(frozen=True, slots=True)
class Sown:
    """What became of one stream: how many of its events were there, and how many are new (or would be)."""

    stream: str
    present: int
    written: int
    note: str | None = None


def sow(
    retold: Retold,
    stories: Sequence[Story],
    *,
    tenant: str,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
) -> tuple[Sown, ...]:
    """Write what is missing, stream by stream; hypotheses come after the sessions that they cite.

    Ids are part of the stories, so a stream that has all of its events, or more, was sown before.
    """
    sown = []
    for done, story in enumerate(stories, start=1):
        wanted = plan(tenant, story)
        present = _length(retold, wanted.stream)
        missing = len(wanted.steps[present:])
        sown.append(Sown(wanted.stream.name, present, missing) if dry_run else _write(retold, wanted, present))
        if on_progress is not None:
            on_progress(done, len(stories))
    return tuple(sown)


def _write(retold: Retold, wanted: Plan, present: int) -> Sown:
    written = 0
    try:
        for step in wanted.steps[present:]:
            step(retold)
            written += 1
    except Conflict as error:
        # Somebody else has gone on with this stream; their work stays, and ours is not forced upon it.
        return Sown(wanted.stream.name, present, written, f"left as it is: {error}")
    return Sown(wanted.stream.name, present, written)


def _length(retold: Retold, stream: Stream) -> int:
    return sum(1 for _ in retold.log.stream(stream))
