"""What a demo measures."""

from dataclasses import dataclass, field

from rich.table import Table


@dataclass
class Figures:
    """What was measured, and what was not as promised."""

    events: int = 0
    rows: int = 0
    outage_seconds: float = 0.0
    catch_up_seconds: float = 0.0
    pending_in_outage: int = 0
    attempts: int = 0
    parked: int = 0
    replayed_events: int = 0
    replay_events_per_second: float = 0.0
    nodes: int = 0
    edges: int = 0
    differences: int = 0
    graph_equals_log: bool = False
    broken_promises: list[str] = field(default_factory=list)


def table_of(figures: Figures) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("events in the log", f"{figures.events:,}")
    table.add_row("rows projected", f"{figures.rows:,}")
    table.add_row("outage, seconds", f"{figures.outage_seconds:.1f}")
    table.add_row("attempts it cost", f"{figures.attempts:,}")
    table.add_row("catching up, seconds", f"{figures.catch_up_seconds:.1f}")
    table.add_row("replay, events a second", f"{figures.replay_events_per_second:,.0f}")
    table.add_row("nodes and edges verified", f"{figures.nodes + figures.edges:,}")
    table.add_row("differences", f"{figures.differences:,}")
    return table
