"""A home that is thrown away and made anew; only one that says it is such a home is ever touched."""

import os
import shutil
from pathlib import Path
from typing import Final

from app.domain.errors import RuleBroken
from app.infrastructure.embedded import graph, postgres
from app.infrastructure.embedded.home import Home, explained, write_file
from app.infrastructure.embedded.process import ServerProcess

MARKER: Final = "made-by-retold-demo"
KEPT: Final = {MARKER, "lock", "run"}
"""The locks stay: others may be waiting for them."""


def claim_scratch(path: Path) -> Home:
    """The scratch home at `path`, marked as one. Raises `RuleBroken` where something else is there."""
    home = Home(path)
    with explained(home.path):
        if home.path.is_symlink() or (home.path.is_dir() and _foreign(home.path)):
            raise RuleBroken(
                f"{home.path} is not a former demo and would be emptied: move it away, or set RETOLD_HOME elsewhere"
            )
    home.create()
    with explained(home.path):
        write_file(home.path / MARKER, "Emptied by every `retold demo`.\n")
    return home


def empty(home: Home) -> None:
    """Remove everything from a scratch home whose lock the caller holds; its left-over servers are ended first."""
    for name in (graph.NAME, postgres.NAME):
        os.close(ServerProcess(home, name).claim())
    with explained(home.path):
        for each in home.path.iterdir():
            if each.name in KEPT:
                continue
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()


def _foreign(folder: Path) -> bool:
    return not (folder / MARKER).is_file() and any(folder.iterdir())
