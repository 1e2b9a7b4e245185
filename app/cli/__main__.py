"""`python -m app.cli` is `retold`, for those who have no console script at hand."""

from app.cli.main import run

run()
