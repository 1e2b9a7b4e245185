"""`retold seed`: put demo data into the log."""

from collections.abc import Sequence
from typing import Annotated

import typer

from app.bootstrap import retold
from app.cli.output import AsJson, console, print_json, print_table, progress_bars
from app.infrastructure.embedded.home import Home
from app.infrastructure.embedded.servers import resolve_database
from app.settings import Settings, load_settings
from seeds.demo import DEMO
from seeds.sow import Sown, sow


def seed(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; say what would be written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put demo data into the log of RETOLD_TENANT; what is there already stays, a second run changes nothing."""
    settings = load_settings()
    sown = sow_demo(resolve_database(settings, Home(settings.home)), settings, dry_run=dry_run)
    if as_json:
        print_json(_summary(settings, sown, dry_run=dry_run))
        return
    title = f"Demo data of tenant {settings.tenant}"
    rows = [(each.stream, each.present, each.written, each.note) for each in sown]
    print_table(title, ("stream", "there", "would be written" if dry_run else "written", "note"), rows)
    console().print(_sentence(sown, dry_run=dry_run), highlight=False)


def sow_demo(database_url: str, settings: Settings, *, dry_run: bool = False) -> tuple[Sown, ...]:
    with retold(database_url, settings) as product, progress_bars() as bars:
        return sow(
            product,
            DEMO,
            tenant=settings.tenant,
            dry_run=dry_run,
            on_progress=lambda done, total: bars("seed", done, total),
        )


def _summary(settings: Settings, sown: Sequence[Sown], *, dry_run: bool) -> dict[str, object]:
    return {
        "tenant": settings.tenant,
        "dry_run": dry_run,
        "present": sum(each.present for each in sown),
        "written": sum(each.written for each in sown),
        "streams": sown,
    }


def _sentence(sown: Sequence[Sown], *, dry_run: bool) -> str:
    written = sum(each.written for each in sown)
    if not written:
        return "All of it is there already; nothing to do."
    return f"{written} events {'would be' if dry_run else 'were'} written."
