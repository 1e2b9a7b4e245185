"""The containers say what the code says: images, variables, commands, ports, health and order of start."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.infrastructure.embedded.neo4j import VERSION
from app.infrastructure.embedded.neo4j_jars import POM
from app.settings import Settings, variable

PROJECT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
SERVERS = sorted(set(SERVICES) - set(OURS))
CONDITIONS = {"service_healthy", "service_started", "service_completed_successfully"}


def test_the_services_are_the_two_servers_the_migrations_and_the_projector() -> None:
    assert SERVERS == ["neo4j", "postgres"]
    assert {"migrate", "projector"} <= set(OURS)


def test_one_version_of_neo4j_is_named_everywhere() -> None:
    assert f"NEO4J_VERSION ?= {VERSION}\n" in (PROJECT / "Makefile").read_text()
    assert f"<neo4j.version>{VERSION}</neo4j.version>" in POM.read_text()


def test_the_servers_are_the_ones_that_the_code_is_made_for() -> None:
    assert SERVICES["neo4j"]["image"] == f"neo4j:{'.'.join(VERSION.split('.')[:2])}-community"
    image, _, tag = SERVICES["postgres"]["image"].partition(":")
    assert image == "pgvector/pgvector"
    assert int(tag.removeprefix("pg")) >= 16


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_a_setting(name: str) -> None:
    known = {variable(field) for field in Settings.model_fields}

    assert set(SERVICES[name]["environment"]) <= known


@pytest.mark.parametrize("name", OURS)
def test_the_values_are_accepted_by_the_settings(name: str) -> None:
    given = {
        key.removeprefix("RETOLD_").lower(): _filled(str(value)) for key, value in SERVICES[name]["environment"].items()
    }

    settings = Settings.model_validate(given)

    assert settings.database_url is not None
    assert settings.graph_url is not None


@pytest.mark.parametrize("name", OURS)
def test_urls_name_services_and_the_ports_that_those_listen_on(name: str) -> None:
    environment = SERVICES[name]["environment"]

    assert "@postgres:5432/retold" in environment["RETOLD_DATABASE_URL"]
    assert environment["RETOLD_GRAPH_URL"] == "bolt://neo4j:7687"
    assert SERVICES["postgres"]["environment"]["POSTGRES_DB"] == "retold"
    assert SERVICES["postgres"]["environment"]["POSTGRES_USER"] == "retold"


def test_the_commands_exist() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]

    assert "retold" in project["scripts"]
    assert SERVICES["migrate"]["command"] == ["retold", "migrate"]
    assert SERVICES["projector"]["command"] == ["python", "-m", "projector"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_published_on_loopback_alone(name: str) -> None:
    for port in SERVICES[name].get("ports", ()):
        address, published, inner = port.split(":")
        assert address == "127.0.0.1"
        assert published == inner


def test_the_projector_publishes_the_port_that_it_listens_on() -> None:
    projector = SERVICES["projector"]
    port = projector["environment"]["RETOLD_PROJECTOR_PORT"]

    assert projector["environment"]["RETOLD_PROJECTOR_HOST"] == "0.0.0.0"
    assert projector["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"http://127.0.0.1:{port}/health" in projector["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", [*SERVERS, "projector"])
def test_everything_that_stays_says_whether_it_is_well(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert SERVICES[name]["healthcheck"]["retries"] > 0


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_what_a_service_waits_for_exists_and_can_come_true(name: str) -> None:
    for needed, how in SERVICES[name].get("depends_on", {}).items():
        assert how["condition"] in CONDITIONS
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[needed]
        if how["condition"] == "service_completed_successfully":
            assert SERVICES[needed]["restart"] == "no"


def test_migrations_come_before_whoever_reads_the_tables() -> None:
    assert SERVICES["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    for name in set(OURS) - {"migrate"}:
        assert SERVICES[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_no_password_is_written_down() -> None:
    text = (PROJECT / "docker-compose.yml").read_text()

    for line in text.splitlines():
        if "PASSWORD" in line and not line.lstrip().startswith("#"):
            assert "${POSTGRES_PASSWORD:?" in line or "${RETOLD_GRAPH_PASSWORD:?" in line or "NEO4J_AUTH#" in line


def test_the_image_holds_every_package_and_does_not_run_as_root() -> None:
    packages = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    lines = (PROJECT / "Dockerfile").read_text().splitlines()
    kept = {line.removeprefix("!") for line in (PROJECT / ".dockerignore").read_text().splitlines()}

    for package in packages["packages"]:
        assert f"COPY {package} {package}" in lines
        assert package in kept
    copied = [line for line in lines if line.startswith("COPY") and "--from=" not in line]
    assert {word for line in copied for word in line.split()[1:-1]} <= kept
    assert [line for line in lines if line.startswith("USER")] == ["USER retold"]
    assert lines[1].startswith("FROM python:3.11")


def _filled(value: str) -> str:
    return re.sub(r"\$\{[^}]*\}", "a-password", value)


def test_the_image_has_the_very_versions_that_the_tests_ran_with_and_no_tools() -> None:
    def locked(name: str) -> set[str]:
        return set(re.findall(r"^([a-z0-9-]+==\S+)", (PROJECT / name).read_text(), re.MULTILINE))

    runtime, everything = locked("requirements-runtime.lock"), locked("requirements.lock")
    assert len(runtime) > 20
    assert runtime < everything
    assert not {each for each in runtime if each.startswith(("pytest==", "mypy==", "arcadedb-embedded=="))}
    assert "COPY requirements-runtime.lock" in (PROJECT / "Dockerfile").read_text()
