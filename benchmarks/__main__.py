"""`python -m benchmarks`: measures on the servers that the settings name, else on embedded ones of its own."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final
from uuid import uuid4

import psycopg
import typer
from psycopg import sql
from sqlalchemy.engine import make_url

from app.cli.exit import answer, guarded
from app.cli.output import AsJson, Yes, ask, print_json, print_table, progress_bars
from app.infrastructure.embedded.servers import Servers, resolve, start_embedded
from app.infrastructure.graph.client import GraphClient
from app.infrastructure.ids import uuid7
from app.infrastructure.logging import configure_logging
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import make_engine
from app.infrastructure.postgres.hint import no_hint
from app.infrastructure.postgres.migration import migrate
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from app.settings import Settings, load_settings
from benchmarks.append import hundred_appends, one_append
from benchmarks.figure import Figure
from benchmarks.project import project, write_events
from projector.bootstrap import assemble
from projector.reader import GraphReader
from projector.writer import GraphWriter

NAME: Final = "python -m benchmarks"

Quick = Annotated[bool, typer.Option("--quick", help="Fewer rows and repetitions: about a minute.")]


def main(quick: Quick = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Each figure beside the same work written by hand.

    It writes to a database of its own, and to the whole graph: one that holds a projection already is wiped, after
    asking.
    """
    settings = load_settings()
    configure_logging(settings, at_least="warning")
    with _servers(settings) as (servers, tuned):
        if not yes:
            _ask_before_wiping(servers, tuned)
        with progress_bars() as on_progress:
            figures = list(_measure(servers, tuned, quick=quick, on_progress=on_progress))
    if as_json:
        print_json(figures)
    else:
        _show(figures)


def _measure(
    servers: Servers, settings: Settings, *, quick: bool, on_progress: Callable[[str, int, int | None], None]
) -> Iterator[Figure]:
    repetitions = 3 if quick else 7
    engine = make_engine(servers.database_url)
    begin = PostgresBegin(engine, Codec(), uuid7, no_hint)

    def bar(phase: str) -> Callable[[], None]:
        done = iter(range(1, repetitions + 2))
        return lambda: on_progress(phase, next(done), repetitions + 1)

    try:
        yield one_append(
            begin,
            servers.database_url,
            appends=300 if quick else 1_000,
            repetitions=repetitions,
            on_repetition=bar("append one event"),
        )
        yield hundred_appends(
            begin,
            servers.database_url,
            appends=20 if quick else 60,
            repetitions=repetitions,
            on_repetition=bar("append a hundred events"),
        )
        _forget_rows(servers.database_url)
        yield _projecting(begin, servers, settings, rows=4_000 if quick else 20_000, bar=bar, repetitions=repetitions)
    finally:
        engine.dispose()


def _projecting(
    begin: PostgresBegin,
    servers: Servers,
    settings: Settings,
    *,
    rows: int,
    bar: Callable[[str], Callable[[], None]],
    repetitions: int,
) -> Figure:
    events = write_events(begin, rows)
    client = GraphClient(servers.graph, timeout=settings.graph_timeout, connect_timeout=settings.graph_connect_timeout)
    with client, assemble(servers, settings) as parts:
        return project(
            parts,
            GraphWriter(client),
            servers.graph,
            servers.database_url,
            events,
            batch_size=settings.batch_size,
            repetitions=repetitions,
            on_repetition=bar(f"project {rows:,} rows"),
        )


@contextmanager
def _servers(settings: Settings) -> Iterator[tuple[Servers, Settings]]:
    """The servers to measure, with a migrated database of its own on them."""
    with tempfile.TemporaryDirectory(prefix="retold-bench-", ignore_cleanup_errors=True) as home:
        private = settings.model_copy(update={"home": Path(home), "postgres_port": 0, "bolt_port": 0})
        with start_embedded(private):
            found = resolve(private)
            with _own_database(found.database_url) as url:
                migrate(url)
                yield Servers(url, found.graph), private


@contextmanager
def _own_database(url: str) -> Iterator[str]:
    name = sql.Identifier(database := f"retold_bench_{uuid4().hex[:12]}")
    with psycopg.Connection.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            yield make_url(url).set(database=database).render_as_string(hide_password=False)
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def _forget_rows(url: str) -> None:
    """Projecting must not begin with the rows of the appends before it."""
    with psycopg.Connection.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM outbox")


def _ask_before_wiping(servers: Servers, settings: Settings) -> None:
    with GraphClient(
        servers.graph, timeout=settings.graph_timeout, connect_timeout=settings.graph_connect_timeout
    ) as client:
        nodes = sum(GraphReader(client).counts().values())
    if nodes:
        ask(f"The graph at {servers.graph.url} holds a projection of {nodes:,} nodes. Wipe it?")


def _show(figures: list[Figure]) -> None:
    print_table(
        "Retold beside the same work by hand (medians; the ratio is to be at least the goal)",
        ("figure", "Retold", "by hand", "unit", "ratio", "least", "goal", "holds"),
        [
            (each.figure, each.value, each.by_hand, each.unit, each.ratio, each.ratio_min, each.goal, each.holds)
            for each in figures
        ],
    )


def _run() -> None:
    program = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    program.command(epilog=f"Example: {NAME} --quick --json")(main)
    answer(program, NAME)


if __name__ == "__main__":
    guarded(_run)
