"""Words of other programs, made fit for a sentence of ours: a table, a log line and JSON show them alike."""

from typing import Final

LIMIT: Final = 200
ENOUGH: Final = 20
"""How many times the limit is looked at: the rest can be a megabyte, and white space goes."""


def one_line(text: str, limit: int = LIMIT) -> str:
    """`text` on one line, with single spaces and nothing unprintable, cut at a word where it is longer than `limit`."""
    seen = "".join(each if each.isprintable() else " " for each in text[: limit * ENOUGH])
    line = " ".join(seen.split())
    if len(line) <= limit:
        return line
    head, _, _ = line[:limit].rpartition(" ")
    return f"{head or line[: limit - 1]}…"
