"""Waiting for what will happen, instead of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE = 0.02


def eventually(condition: Callable[[], T], within: float = 20.0) -> T:
    """What `condition` gives once that is true; an error inside it counts as not yet. Fails after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        last: object
        try:
            found = condition()
        except Exception as error:
            last = error
        else:
            if found:
                return found
            last = found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s; the last look gave {last!r}")
        time.sleep(PAUSE)
