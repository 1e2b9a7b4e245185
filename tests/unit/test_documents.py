"""What the documents say is true of the code: settings, targets, commands, metrics, log lines, paths and links."""

import ast
import dataclasses
import inspect
import re
import tomllib
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from app.bootstrap import Retold
from app.cli.main import command_line
from app.settings import Settings, variable
from projector.health import Beat
from projector.metrics import Metrics
from projector.status import Status, complaints

PROJECT = Path(__file__).parents[2]
README = PROJECT / "README.md"
OPERATIONS = PROJECT / "docs" / "operations.md"
DECISIONS = sorted((PROJECT / "docs" / "adr").glob("[0-9]*.md"))
DOCUMENTS = [README, *sorted((PROJECT / "docs").rglob("*.md"))]
CODE = [path for room in ("app", "projector", "seeds", "benchmarks") for path in sorted((PROJECT / room).rglob("*.py"))]
FOLDERS = ("app", "projector", "migrations", "seeds", "benchmarks", "tests", "docs")

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WELL = Status(
    pending=0,
    oldest_pending_seconds=None,
    parked=0,
    head=0,
    log_head=0,
    holder=None,
    last_attempt_at=None,
    last_success_at=None,
    seconds_since_attempt=0.0,
    outage=None,
    outage_since=None,
    replay_started_at=None,
)


def test_the_table_of_settings_lists_every_setting_in_order_with_its_default() -> None:
    told = [(cells[0], cells[1]) for cells in _table(README, "Settings")]

    assert told == [
        (f"`{variable(name)}`", _shown(field.get_default())) for name, field in Settings.model_fields.items()
    ]


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = {
        each
        for path in DOCUMENTS
        for code in _code(path.read_text())
        for each in re.findall(r"^(?:\S+=\S+ )*make ([a-z0-9-]+)", code, re.MULTILINE)
    }

    assert {"up", "test"} <= named
    assert named <= targets


def test_the_table_of_commands_lists_every_command() -> None:
    told = [cells[0].strip("`") for cells in _table(README, "Commands")]

    assert sorted(told) == sorted(_commands(typer.main.get_command(command_line()), "retold"))


def test_every_metric_is_explained_and_every_explained_metric_exists() -> None:
    told = [cells[0].strip("`") for cells in _table(OPERATIONS, "Metrics")]
    there = [
        f"{metric.name}_total" if metric.type == "counter" else metric.name
        for metric in Metrics(lambda: WELL).registry.collect()
    ]

    assert sorted(told) == sorted(there)


def test_every_log_line_of_the_projector_is_explained_with_its_level() -> None:
    told = {(cells[0].strip("`"), cells[1]) for cells in _table(OPERATIONS, "Log lines")}

    assert told == {each for path in (PROJECT / "projector").rglob("*.py") for each in _log_lines(path)}


def test_every_complaint_of_the_health_is_explained() -> None:
    told = [re.escape(cells[0].strip("`")).replace("…", ".*") for cells in _table(OPERATIONS, "Health")]
    ill = dataclasses.replace(WELL, outage="silent", outage_since=NOW, replay_started_at=NOW)
    said = [
        *complaints(dataclasses.replace(WELL, seconds_since_attempt=None), stuck_after=timedelta(seconds=1)),
        *complaints(dataclasses.replace(ill, seconds_since_attempt=9.0), stuck_after=timedelta(seconds=1)),
        *complaints(dataclasses.replace(WELL, oldest_pending_seconds=9.0), stuck_after=timedelta(seconds=1)),
        *Beat(timedelta(seconds=-1)).complaints(),
    ]

    assert len(said) == 6
    for complaint in said:
        assert any(re.match(each, complaint) for each in told), complaint


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name)
def test_every_decision_names_what_enforces_it(path: Path) -> None:
    text = path.read_text()
    contracts = {each["name"] for each in _pyproject()["tool"]["importlinter"]["contracts"]}
    enforced = " ".join(text.partition("## Enforced by")[2].split())

    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "Context",
        "Decision",
        "Consequences",
        "Alternatives",
        "Enforced by",
    ]
    assert "The price:" in text.partition("## Consequences")[2].partition("## Alternatives")[0]
    named = re.findall(r"`((?:tests/[\w/]+|pyproject)\.\w+)`", enforced)
    assert named
    assert [each for each in named if not (PROJECT / each).is_file()] == []
    assert set(re.findall(r'"([^"]+)"', enforced)) <= contracts
    assert ("pyproject.toml" in named) == ('"' in enforced)


def test_the_index_of_decisions_lists_them_all_under_their_titles() -> None:
    index = (PROJECT / "docs" / "adr" / "README.md").read_text()

    assert re.findall(r"^\| \[(\d+)\]\((\S+)\) \| ([^|]+) \|", index, re.MULTILINE) == [
        (path.name[:4], path.name, path.read_text().splitlines()[0].removeprefix(f"# {path.name[:4]} "))
        for path in DECISIONS
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_links_inside_the_project_resolve(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        assert found.exists(), target
        assert not anchor or anchor in _anchors(found), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_paths_of_the_project_that_are_named_exist(path: Path) -> None:
    for code in _code(path.read_text()):
        for named in re.findall(rf"^(?:{'|'.join(FOLDERS)})/[\w./-]*$", code):
            assert (PROJECT / named).exists(), named


def test_every_word_of_the_glossary_is_explained_once() -> None:
    words = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", (PROJECT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    explained = [each for each in words if each not in {"term", "---"}]

    assert len(explained) > 50
    assert [each for each in explained if explained.count(each) > 1] == []


def test_the_python_example_calls_the_use_cases_as_they_are() -> None:
    (example,) = re.findall(r"```python\n(.+?)```", README.read_text(), re.DOTALL)
    use_cases = typing.get_type_hints(Retold)
    called = [
        node
        for node in ast.walk(ast.parse(example))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "app"
    ]

    assert len(called) == 5
    for call in called:
        assert isinstance(call.func, ast.Attribute)
        given = dict.fromkeys(keyword.arg for keyword in call.keywords if keyword.arg)
        shared = {} if all(keyword.arg for keyword in call.keywords) else dict.fromkeys(("tenant", "session_id"))
        inspect.signature(use_cases[call.func.attr].__call__).bind(None, **shared, **given)


def test_the_core_is_synchronous_but_for_the_inside_of_the_graph_client() -> None:
    asynchronous = [
        str(path.relative_to(PROJECT))
        for path in CODE
        if any(
            isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]

    assert asynchronous == ["app/infrastructure/graph/client.py"]


def _table(path: Path, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    section = re.split(r"^## ", path.read_text(), flags=re.MULTILINE)
    (found,) = [each for each in section if each.startswith(f"{heading}\n")]
    rows = [line for line in found.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def _code(text: str) -> Iterator[str]:
    """What is written as code: fenced, indented, or between backticks."""
    yield from re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"^ {4}(\S.*)$", rest, re.MULTILINE)
    yield from re.findall(r"`([^`]+)`", rest)


def _shown(default: Any) -> str:
    match default:
        case None:
            return "–"
        case bool():
            return f"`{str(default).lower()}`"
        case timedelta():
            return f"`{default.total_seconds():g}`"
        case _:
            return f"`{default}`"


def _commands(command: Any, path: str) -> Iterator[str]:
    if not hasattr(command, "commands"):
        yield path
        return
    for name, each in command.commands.items():
        yield from _commands(each, f"{path} {name}")


def _log_lines(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log"), attr=level), args=[ast.Constant(value=str(line)), *_]
            ):
                yield line, "error" if level == "exception" else level
            case _:
                continue


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())
