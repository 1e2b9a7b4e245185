"""`python -m projector`: the projector, and nothing else of Retold, as a process."""

from app.cli.exit import guarded
from projector.cli import run

if __name__ == "__main__":
    guarded(run)
