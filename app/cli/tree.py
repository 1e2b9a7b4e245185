"""A picture of the graph as a tree for the terminal."""

from typing import Final

from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from app.infrastructure.graph.picture import Hypothesis, Picture, Project, Session

CUT: Final = 48
STATUS: Final = {
    "closed": "[green]closed[/green]",
    "closed_abnormally": "[red]closed abnormally[/red]",
    "accepted": "[green]accepted[/green]",
    "dismissed": "[red]dismissed[/red]",
    "proposed": "[yellow]proposed[/yellow]",
}


def tree_of(picture: Picture) -> Tree:
    tree = Tree(_label("[bold]The graph[/bold]"))
    for project in picture.projects:
        _project(tree, project)
    profiles = tree.add(_label("[bold]profiles[/bold]"))
    for each in picture.profiles:
        profiles.add(_label(f"{escape(each.user)}: {each.competence}, level {each.level}, {_evidence(each.evidence)}"))
    templates = tree.add(_label("[bold]templates[/bold]"))
    for template in picture.templates:
        templates.add(
            _label(f"{escape(template.id)}: {template.versions} versions, number {template.active} is active")
        )
    return tree


def _label(markup: str) -> Text:
    """One line; where the terminal is too narrow it ends in “…”."""
    text = Text.from_markup(markup, emoji=False, overflow="ellipsis")
    text.no_wrap = True
    return text


def _project(tree: Tree, project: Project) -> None:
    branch = tree.add(_label(f"[bold]{escape(project.id)}[/bold], {project.total:,} sessions"))
    for session in project.sessions:
        _session(branch, session)
    if project.total > len(project.sessions):
        branch.add(_label(f"[dim]… and {project.total - len(project.sessions):,} more[/dim]"))


def _session(branch: Tree, session: Session) -> None:
    status = STATUS.get(session.status, session.status) + (f" ({session.cause})" if session.cause else "")
    leaf = branch.add(_label(f"{escape(session.id)} of {escape(', '.join(session.users))}, {status}{_window(session)}"))
    for handoff in session.handoffs:
        leaf.add(_label(f"{escape(handoff.source)} → {escape(handoff.target)}: [dim]{_cut(handoff.reason)}[/dim]"))
    for hypothesis in session.hypotheses:
        leaf.add(_label(_hypothesis(hypothesis)))


def _window(session: Session) -> str:
    window = session.interaction
    return f", events {window.first} to {window.last}, {_turns(window.turns)}" if window else ""


def _turns(count: int) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"


def _hypothesis(hypothesis: Hypothesis) -> str:
    status = STATUS.get(hypothesis.status, hypothesis.status)
    return f"? {_cut(hypothesis.description)} {status}, {_evidence(hypothesis.evidence)}"


def _evidence(count: int) -> str:
    return f"{count} × evidence"


def _cut(words: str) -> str:
    return escape(words if len(words) <= CUT else words[: CUT - 1] + "…")
