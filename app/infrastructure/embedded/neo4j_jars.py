"""Neo4j Community without Docker: its jars by Maven, and the Java that can run them."""

import math
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import RuleBroken, Unavailable
from app.infrastructure.embedded.home import explained
from app.infrastructure.sentence import one_line

POM = Path(__file__).with_name("neo4j-pom.xml")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
ENTRY_POINT = "META-INF/services/org.neo4j.server.startup.EntryPoint"
MAVEN_TIMEOUT = 1800


def fetched_jars(version: str, cache: Path, report: Callable[[str], None]) -> Path:
    """The folder with the jars of that version, fetched on first use: whole or not at all."""
    folder = cache / f"neo4j-{version}"
    if (folder / "lib").is_dir():
        return folder / "lib"
    report(f"fetching Neo4j {version} with Maven, about 120 MB, once …")
    with explained(cache):
        cache.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"neo4j-{version}-draft-", dir=cache))
    try:
        _maven(version, draft)
        if not (folder / "lib").is_dir():  # another process may have been faster
            with explained(folder):
                draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder / "lib"


def entry_point(version: str, jars: Path) -> str:
    """The main class, which Neo4j has renamed between its lines."""
    with zipfile.ZipFile(jars / f"neo4j-{version}.jar") as jar:
        lines = jar.read(ENTRY_POINT).decode().splitlines()
    return next(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def java_for(version: str) -> tuple[str, int]:
    """A Java that can run that version, and its own major version; RuleBroken says what to install."""
    needed = java_needed(version)
    found = {str(java): _java_version(java) for java in _javas()}
    for java, major in found.items():
        if needed.oldest <= major <= needed.newest:
            return java, major
    there = ", ".join(f"{java} is {major}" for java, major in found.items()) or "there is none"
    raise RuleBroken(
        f"Neo4j {version} needs Java {needed} and {there}: "
        f"apt install {needed.package}, or set JAVA_HOME to such a Java."
    )


@dataclass(frozen=True)
class JavaNeeded:
    """The major versions of Java that a Neo4j runs on, and a Debian package that brings one."""

    oldest: int
    newest: float
    package: str

    def __str__(self) -> str:
        return f"{self.oldest} or later" if self.newest == math.inf else f"{self.oldest} to {self.newest}"


def java_needed(version: str) -> JavaNeeded:
    """What that version of Neo4j is documented to run on."""
    if version.startswith("5."):
        return JavaNeeded(17, 21, "openjdk-17-jre-headless")
    return JavaNeeded(21, math.inf, "openjdk-21-jre-headless")


def _javas() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if java := shutil.which("java"):
        yield Path(java)


def _java_version(java: Path) -> int:
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, check=False)  # noqa: S603
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', done.stderr.decode(errors="replace"))
    return int(match.group(1)) if match else 0


def _maven(version: str, draft: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise RuleBroken("Neo4j's jars are fetched with Maven, which is missing: apt install maven.")
    # Maven writes `target/` beside the pom, so it gets a copy of its own.
    shutil.copy(POM, draft / "pom.xml")
    command = [maven, "--batch-mode", "--quiet", f"-Dneo4j.version={version}", COPY, "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={draft / 'lib'}"]
    done = subprocess.run(  # noqa: S603 (our own argument list, no shell)
        command,
        cwd=draft,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=MAVEN_TIMEOUT,
    )
    if done.returncode != 0:
        said = one_line(done.stdout.decode(errors="replace"))
        raise Unavailable(f"Maven could not fetch Neo4j {version} ({said}): is that a version, and can it be reached?")
