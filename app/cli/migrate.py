"""`retold migrate`: bring the database to the schema of this code."""

from dataclasses import dataclass
from typing import Annotated

import typer

from app.cli.output import AsJson, console, print_json
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.servers import resolve_database
from app.infrastructure.postgres import migration
from app.settings import load_settings


@dataclass(frozen=True, slots=True)
class Migrated:
    """Revisions; None is a database that was never migrated."""

    before: str | None
    after: str | None
    head: str | None

    @property
    def newer(self) -> bool:
        """Whether the database is newer than this code."""
        return not migration.knows(self.after)

    @property
    def line(self) -> str:
        if self.after != self.head:
            return f"The database is at {self.after or 'nothing'}, this Retold at {self.head}: run `retold migrate`."
        if self.before == self.after:
            return f"The database is at {self.head}; nothing to do."
        return f"Migrated from {self.before or 'nothing'} to {self.after}."


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 if there is anything to do.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the database to the schema of this Retold; others that migrate at the same time are waited for."""
    settings = load_settings()
    url = resolve_database(settings, Home(settings.home))
    if check:
        migration.refuse_newer(url)
    migrated = look(url) if check else bring_to_head(url)
    if as_json:
        print_json({"from": migrated.before, "to": migrated.after, "head": migrated.head})
    else:
        console().print(migrated.line, highlight=False)
    if migrated.after != migrated.head:
        raise typer.Exit(1)


def look(url: str) -> Migrated:
    found = migration.current(url)
    return Migrated(found, found, migration.head())


def bring_to_head(url: str) -> Migrated:
    before = migration.migrate(url)
    return Migrated(before, migration.current(url), migration.head())
