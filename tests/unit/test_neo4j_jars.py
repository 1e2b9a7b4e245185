"""Which Java runs which Neo4j, and what is said when it or Maven is missing."""

import shutil
from pathlib import Path

import pytest

from app.domain.errors import RuleBroken, Unavailable
from app.infrastructure.embedded.neo4j_jars import fetched_jars, java_for


def make_program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def make_java(folder: Path, version: str) -> Path:
    return make_program(folder, "java", f"echo 'openjdk version \"{version}\"' >&2")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only one searched for programs, beside the shell's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def test_the_java_of_the_path_is_taken(path: Path) -> None:
    java = make_java(path, "17.0.15")

    assert java_for("5.26.30") == (str(java), 17)


def test_java_home_comes_first_where_it_fits(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_java(path, "17.0.15")
    new = make_java(tmp_path / "jdk" / "bin", "25")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))

    assert java_for("2026.08.1") == (str(new), 25)
    assert java_for("5.26.30") == (str(old), 17)


@pytest.mark.parametrize(
    ("neo4j", "java", "message"),
    [
        ("5.26.30", "11.0.2", r"5\.26\.30 needs Java 17 to 21 and .*java is 11: apt install openjdk-17-jre-headless"),
        ("5.26.30", "25", r"needs Java 17 to 21 and .*java is 25: apt install openjdk-17-jre-headless"),
        ("2026.08.1", "17.0.15", r"needs Java 21 or later and .*java is 17: apt install openjdk-21-jre-headless"),
    ],
)
def test_a_java_that_does_not_fit_is_answered_with_a_package(path: Path, neo4j: str, java: str, message: str) -> None:
    make_java(path, java)

    with pytest.raises(RuleBroken, match=message):
        java_for(neo4j)


def test_without_java_a_package_is_named(path: Path) -> None:
    with pytest.raises(RuleBroken, match="there is none: apt install openjdk-17-jre-headless"):
        java_for("5.26.30")


def test_without_maven_a_package_is_named_and_the_cache_stays_clean(path: Path, tmp_path: Path) -> None:
    with pytest.raises(RuleBroken, match="apt install maven"):
        fetched_jars("5.26.30", tmp_path / "cache", report=lambda _: None)
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_maven_could_not_fetch_leaves_nothing(path: Path, tmp_path: Path) -> None:
    make_program(path, "mvn", "echo 'no such version'; printf '\\377\\n1'; exit 1")

    with pytest.raises(Unavailable, match=r"could not fetch Neo4j 5\.0\.0 \(no such version � 1\): is"):
        fetched_jars("5.0.0", tmp_path / "cache", report=lambda _: None)
    assert list((tmp_path / "cache").iterdir()) == []


def test_jars_are_fetched_once_and_it_is_said(path: Path, tmp_path: Path) -> None:
    mkdir = shutil.which("mkdir", path="/bin:/usr/bin")
    make_program(path, "mvn", f'for word; do case $word in -DoutputDirectory=*) {mkdir} "${{word#*=}}";; esac; done')
    said: list[str] = []

    first = fetched_jars("5.26.30", tmp_path / "cache", said.append)
    second = fetched_jars("5.26.30", tmp_path / "cache", said.append)

    assert first == second == tmp_path / "cache" / "neo4j-5.26.30" / "lib"
    assert len(said) == 1
    assert "fetching Neo4j 5.26.30" in said[0]
