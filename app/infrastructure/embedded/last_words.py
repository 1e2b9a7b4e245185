"""What the output of a server that failed says about why."""

import re
from typing import Final

from app.infrastructure.sentence import LIMIT, one_line

DISK_FULL: Final = ("No space left on device", "Disk quota exceeded")
# ArcadeDB shortens its levels to five letters; a Java that cannot start says so without a level.
SERIOUS: Final = re.compile(
    r"\b(?:FATAL|PANIC|ERROR|SEVERE?)\b|\binitdb: error\b|The graph server could not be started"
    r"|^(?:Error|Invalid|Could not) "
)
# The answers to our own asking whether the server is ready.
OURS: Final = re.compile(r"the database system is |\[BoltNetworkExecutor\]")


def disk_full(output: str) -> bool:
    """Whether a write failed for want of room."""
    return any(words in output for words in DISK_FULL)


def reason(output: str) -> str:
    """The last line or two that report an error, else the last line: one line, without times; nothing of nothing."""
    lines = [line for line in output.splitlines() if line.strip() and not OURS.search(line)]
    serious = [line[found.start() :] for line in lines if (found := SERIOUS.search(line))]
    *_, last = serious or lines or [""]
    both = "; ".join(one_line(line, LIMIT + 1) for line in serious[-2:])
    return both if both and len(both) <= LIMIT else one_line(last)
