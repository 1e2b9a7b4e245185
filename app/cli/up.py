"""`retold up`: everything at once, in one terminal, until Ctrl-C."""

import os
import shutil
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from importlib.metadata import version
from typing import Annotated, Final

import typer
from rich.console import Console

from app.bootstrap import retold
from app.cli.address import host_refusal, shown
from app.cli.migrate import bring_to_head
from app.cli.output import console
from app.cli.projector_process import ProjectorProcess, environment_of, health
from app.cli.seed import sow_demo
from app.cli.staff import Staff, interruptible
from app.domain.errors import RuleBroken
from app.infrastructure.embedded.home import Home, free_port, usable_port
from app.infrastructure.embedded.servers import Servers, embedded_servers, resolve
from app.infrastructure.graph.client import GraphClient
from app.settings import Settings, load_settings

TITLES: Final = {"postgres": "PostgreSQL", "graph": "graph"}
PORT_FREE_WITHIN: Final = timedelta(seconds=3)
WELL_WITHIN: Final = timedelta(seconds=10)
LOOK_AGAIN: Final = timedelta(milliseconds=100)

NEXT: Final = (
    ("doctor", "is all of it well?"),
    ("events -f", "what happens, as it happens"),
    ("projector status", "how far the graph has been told"),
)


def up(
    no_seed: Annotated[bool, typer.Option("--no-seed", help="Leave an empty log empty.")] = False,
) -> None:
    """Start everything and serve until Ctrl-C: servers, migrations, demo data for an empty log, the projector.

    Servers run embedded, with their data in RETOLD_HOME, unless RETOLD_DATABASE_URL or RETOLD_GRAPH_URL name others.
    What dies is started again.
    """
    settings = load_settings()
    out = Screen(console())
    with interruptible(), ExitStack() as stack:
        stack.enter_context(Home(settings.home).lock())
        staff = Staff(stack, out.report)
        _start(settings, staff, out, seed=not no_seed)
        out.next_steps(settings)
        try:
            staff.serve()
        except KeyboardInterrupt:
            out.line("Stopping …")
    out.line("Stopped.")


def _start(settings: Settings, staff: Staff, out: "Screen", *, seed: bool) -> None:
    port = _projector_port(settings)
    out.line(f"[bold]Retold {version('retold')}[/bold], home {settings.home}\n")
    for server in embedded_servers(settings):
        with out.busy(f"starting the {server.name} server"):
            seconds = staff.start(server)
        out.done(TITLES[server.name], f"{shown(server.url)}, embedded", seconds)
    servers = resolve(settings)
    with out.busy("looking for the servers"):
        _greet(settings, servers, out)
    with out.busy("migrating"):
        migrated = bring_to_head(servers.database_url)
    out.done("schema", migrated.line)
    if seed:
        _seed(settings, servers, out)
    projector = ProjectorProcess(
        environment_of(servers),
        host=settings.projector_host,
        port=port,
        log_path=Home(settings.home).folder("log") / "projector.log",
    )
    with out.busy("starting the projector"):
        seconds = staff.start(projector)
        complaints = _soon_well(projector.url)
    out.done("projector", f"{projector.url}/health and /metrics", seconds)
    for complaint in complaints:
        out.report("projector", complaint)


def _projector_port(settings: Settings) -> int:
    """Fixed before anything starts, for a host that is ours.

    A projector whose parent was killed gets a moment to end and give its port back.
    """
    host = settings.projector_host
    if (refusal := host_refusal(host)) is not None:
        raise RuleBroken(
            f"the projector cannot listen on {host} ({refusal}); "
            f"set RETOLD_PROJECTOR_HOST to an address of this machine"
        )
    if not settings.projector_port:
        return free_port()
    deadline = time.monotonic() + PORT_FREE_WITHIN.total_seconds()
    while True:
        try:
            return usable_port(settings.projector_port, "RETOLD_PROJECTOR_PORT")
        except RuleBroken:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_AGAIN.total_seconds())


def _greet(settings: Settings, servers: Servers, out: "Screen") -> None:
    """Say where the servers are that we did not start. Raises `GraphUnavailable`; migrating finds the log or not."""
    if settings.database_url is not None:
        out.done(TITLES["postgres"], shown(servers.database_url))
    if settings.graph_url is None:
        return
    began = time.monotonic()
    with GraphClient(
        servers.graph, timeout=settings.graph_timeout, connect_timeout=settings.graph_connect_timeout
    ) as graph:
        graph.ping()
    out.done(TITLES["graph"], servers.graph.url, time.monotonic() - began)


def _seed(settings: Settings, servers: Servers, out: "Screen") -> None:
    with retold(servers.database_url, settings) as product:
        if product.log.head():
            out.done("demo data", "left alone, for the log is not empty")
            return
    sown = sow_demo(servers.database_url, settings)
    out.done("demo data", f"{sum(each.written for each in sown)} events written")


def _soon_well(url: str) -> tuple[str, ...]:
    deadline = time.monotonic() + WELL_WITHIN.total_seconds()
    while complaints := health(url):
        if time.monotonic() > deadline:
            return tuple(complaints)
        time.sleep(LOOK_AGAIN.total_seconds())
    return ()


class Screen:
    """What `up` shows: a line for each part that runs, and then what one can do."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._began = time.monotonic()

    def line(self, text: str) -> None:
        self._out.print(text, highlight=False, soft_wrap=True)

    def busy(self, text: str) -> "Busy":
        return Busy(self._out, text)

    def done(self, what: str, where: str, seconds: float | None = None) -> None:
        took = "" if seconds is None else f"  [dim]{seconds:.1f} s[/dim]"
        self.line(f"  [green]✓[/green] {what:<11} {where}{took}")

    def report(self, name: str, what: str) -> None:
        self.line(f"  [yellow]![/yellow] {name:<11} {' '.join(what.split())}")

    def next_steps(self, settings: Settings) -> None:
        took = time.monotonic() - self._began
        program = "retold" if shutil.which("retold") else os.path.relpath(sys.argv[0])
        self.line(f"\nReady in {took:.1f} s. Logs are in {settings.home / 'log'}. Next, in another terminal:")
        for command, question in NEXT:
            self.line(f"  {program} {command:<17} [dim]{question}[/dim]")
        self.line("Ctrl-C stops everything.")


class Busy:
    """A spinner where there is a terminal, nothing elsewhere."""

    def __init__(self, out: Console, text: str) -> None:
        self._status = out.status(f"{text} …") if out.is_terminal else None

    def __enter__(self) -> None:
        if self._status:
            self._status.start()

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()
