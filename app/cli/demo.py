"""`retold demo`: what Retold promises, shown on real servers: an outage, a replay, and a graph that equals the log."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Final

import typer
from rich.console import Console

from app.bootstrap import retold
from app.cli.figures import Figures, table_of
from app.cli.migrate import bring_to_head
from app.cli.output import AsJson, console, print_json, progress_bars
from app.cli.projector_process import ProjectorProcess, environment_of
from app.cli.staff import Staff, interruptible
from app.cli.tree import tree_of
from app.domain.errors import Unavailable
from app.infrastructure.embedded.graph import EmbeddedGraph
from app.infrastructure.embedded.home import free_port
from app.infrastructure.embedded.postgres import EmbeddedPostgres
from app.infrastructure.embedded.scratch import claim_scratch, empty
from app.infrastructure.embedded.servers import Servers
from app.infrastructure.graph.client import GraphClient
from app.infrastructure.graph.picture import picture
from app.infrastructure.postgres.work import Work, WorkWatch, watching_work
from app.settings import Settings, load_settings
from seeds.crowd import crowd
from seeds.demo import DEMO
from seeds.sow import sow

SESSIONS: Final = 120
BATCH: Final = 50
POLL_SECONDS: Final = "0.25"
KILL_AFTER: Final = 2 * BATCH
"""Rows: the kill comes when these are done and the next batch is in hand."""

LOOK_AGAIN: Final = timedelta(milliseconds=2)
OUTAGE_SEEN_WITHIN: Final = timedelta(seconds=20)
WAITS_FOR: Final = timedelta(seconds=2)
DRAINED_WITHIN: Final = timedelta(seconds=60)
SHOWN: Final = 3


def demo(as_json: AsJson = False) -> None:
    """Show what Retold promises: the graph is killed in mid-batch, comes back, is wiped, replayed and verified.

    Runs on embedded servers of its own, in the folder `demo` of RETOLD_HOME, which every demo empties at its start.
    Exit code 0 only if the graph equals the log in the end, and the outage cost no row an attempt.
    """
    settings = _own(load_settings())
    out = Console(stderr=True) if as_json else console()
    home = claim_scratch(settings.home)
    with interruptible(), ExitStack() as stack:
        stack.enter_context(home.lock())
        empty(home)
        figures = Play(settings, out, stack).run()
    if as_json:
        print_json(figures)
    if figures.broken_promises:
        raise typer.Exit(1)


def _own(settings: Settings) -> Settings:
    """The same settings, on servers of the demo's own."""
    mine = {"home": settings.home / "demo", "database_url": None, "graph_url": None, "postgres_port": 0, "bolt_port": 0}
    return settings.model_copy(update=mine)


class Play:
    """The acts in their order; each says what it shows while it does."""

    def __init__(self, settings: Settings, out: Console, stack: ExitStack) -> None:
        self._settings, self._out, self._stack = settings, out, stack
        self._figures = Figures()
        self._postgres = EmbeddedPostgres(settings.home)
        self._graph = EmbeddedGraph(settings.home)
        self._staff = Staff(stack, lambda name, what: self._say(f"{name} {what}"))

    def run(self) -> Figures:
        self._act("Servers")
        servers = self._start_servers()
        self._act("The log")
        self._tell(servers)
        with watching_work(servers.database_url, connect_timeout=self._settings.database_connect_timeout) as watch:
            self._figures.rows = watch.look().pending
            self._say(f"{self._figures.rows:,} of the events are for the graph; their rows wait in the outbox")
            self._act("The outage")
            self._staff.start(self._projector(servers))
            self._outage(watch)
            self._act("The replay")
            self._replay(servers)
            self._verify(servers)
            self._judge(watch.look())
        self._show(servers)
        return self._figures

    def _start_servers(self) -> Servers:
        for server in (self._postgres, self._graph):
            seconds = self._staff.start(server)
            self._say(f"{server.name} runs, embedded ({seconds:.1f} s)")
        servers = Servers(self._postgres.url, self._graph.endpoint)
        bring_to_head(servers.database_url)
        return servers

    def _tell(self, servers: Servers) -> None:
        began = time.monotonic()
        with retold(servers.database_url, self._settings) as product, progress_bars() as bars:
            sown = sow(
                product,
                (*DEMO, *crowd(SESSIONS)),
                tenant=self._settings.tenant,
                on_progress=lambda done, total: bars("tell", done, total),
            )
        self._figures.events = sum(each.written for each in sown)
        self._say(
            f"{self._figures.events:,} events: sessions opened, talked in, handed on and closed, "
            f"hypotheses, profiles, templates ({time.monotonic() - began:.1f} s)"
        )

    def _projector(self, servers: Servers) -> ProjectorProcess:
        own = {
            **self._environment(servers),
            "RETOLD_BATCH_SIZE": str(BATCH),
            "RETOLD_POLL_INTERVAL": POLL_SECONDS,
        }
        log = self._graph.home.folder("log") / "projector.log"
        return ProjectorProcess(own, host="127.0.0.1", port=free_port(), log_path=log)

    def _outage(self, watch: WorkWatch) -> None:
        hit = self._until(watch, lambda work: work.done >= KILL_AFTER and work.batch_first is not None, DRAINED_WITHIN)
        self._graph.kill()
        began = time.monotonic()
        before = self._until(watch, lambda work: work.outage is not None, OUTAGE_SEEN_WITHIN)
        self._say(f"[red]kill -9[/red] for the graph, with the rows {hit.batch_first} to {hit.batch_last} in hand")
        self._say(f"the projector notices: {before.done:,} rows are done, {before.pending:,} pending")
        time.sleep(WAITS_FOR.total_seconds())
        after = watch.look()
        self._figures.pending_in_outage = after.pending
        self._say(
            f"and waits: {after.pending:,} rows pending as before, {after.attempts} attempts counted, "
            f"{after.parked} rows parked"
        )
        self._expect(after.pending == before.pending > 0, "pending rows changed while the graph was gone")
        self._expect(after.attempts == 0 and after.parked == 0, "the outage was taken for the rows' own fault")
        self._graph.start()
        self._figures.outage_seconds = time.monotonic() - began
        back = time.monotonic()
        self._until(watch, lambda work: work.pending == 0, DRAINED_WITHIN)
        self._figures.catch_up_seconds = time.monotonic() - back
        self._say(
            f"the graph is back after {self._figures.outage_seconds:.1f} s; "
            f"the projector has caught up by itself in {self._figures.catch_up_seconds:.1f} s"
        )

    def _replay(self, servers: Servers) -> None:
        _, replayed = self._command(servers, "projector", "replay", "--yes", "--json")
        self._figures.replayed_events = replayed["events"]
        self._figures.replay_events_per_second = replayed["events"] / replayed["seconds"]
        self._say(
            f"{replayed['wiped']:,} nodes wiped, {replayed['events']:,} events told again in "
            f"{replayed['seconds']:.1f} s, while the projector stood aside"
        )

    def _verify(self, servers: Servers) -> None:
        code, verdict = self._command(servers, "projector", "verify", "--json")
        figures = self._figures
        figures.nodes, figures.edges = verdict["nodes"], verdict["edges"]
        figures.differences = len(verdict["differences"])
        figures.graph_equals_log = code == 0 and verdict["holds"]
        self._say(f"verified: {figures.nodes:,} nodes and {figures.edges:,} edges, {figures.differences} differences")
        self._expect(figures.graph_equals_log, "the graph is not what the log tells")

    def _judge(self, work: Work) -> None:
        self._figures.attempts, self._figures.parked = work.attempts, work.parked
        self._expect(work.attempts == 0, f"a row was charged {work.attempts} attempts")
        self._expect(work.parked == 0, f"{work.parked} rows are parked")

    def _show(self, servers: Servers) -> None:
        settings, figures = self._settings, self._figures
        with GraphClient(
            servers.graph, timeout=settings.graph_timeout, connect_timeout=settings.graph_connect_timeout
        ) as client:
            tree = tree_of(picture(client, tenant=settings.tenant, limit=SHOWN))
        self._out.print()
        self._out.print(tree, highlight=False)
        self._out.print()
        self._out.print(table_of(figures))
        for promise in figures.broken_promises:
            self._out.print(f"[red]✗[/red] {promise}", highlight=False)
        if not figures.broken_promises:
            self._out.print("[green]✓ The graph is exactly the log.[/green]", highlight=False)

    def _environment(self, servers: Servers) -> dict[str, str]:
        return {**environment_of(servers), "RETOLD_HOME": str(self._graph.home.path)}

    def _command(self, servers: Servers, *words: str) -> tuple[int, Any]:
        self._say(f"[dim]$ retold {' '.join(words)}[/dim]")
        done = subprocess.run(  # noqa: S603 (our own words, no shell)
            [sys.executable, "-m", "app.cli", *words],
            env={**os.environ, **self._environment(servers)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            raise Unavailable(
                f"`retold {' '.join(words)}` gave no answer; its exit code is {done.returncode}"
            ) from None

    def _until(self, watch: WorkWatch, reached: Callable[[Work], bool], within: timedelta) -> Work:
        deadline = time.monotonic() + within.total_seconds()
        while not reached(work := watch.look()):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"The projector did not get there within {within.total_seconds():.0f} s; it is at {work}"
                )
            time.sleep(LOOK_AGAIN.total_seconds())
        return work

    def _expect(self, held: bool, otherwise: str) -> None:
        if not held:
            self._figures.broken_promises.append(otherwise)

    def _act(self, title: str) -> None:
        self._out.print(f"\n[bold]{title}[/bold]", highlight=False)

    def _say(self, text: str) -> None:
        self._out.print(f"  {text}", highlight=False, soft_wrap=True)
