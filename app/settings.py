"""What the environment decides: every setting of Retold is one `RETOLD_…` variable, checked before anything starts."""

import difflib
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.domain.errors import RuleBroken

PREFIX = "RETOLD_"
# Tests and benchmarks read variables of their own that are no settings of the product.
FOREIGN_PREFIXES = ("RETOLD_TEST_", "RETOLD_BENCH_")
LONGEST = timedelta(days=1)
DATABASE_SCHEMES = ("postgresql", "postgres")
BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
# A name, an address, or the encoded path of a socket's folder; and a port.
PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+(%\w+)?\]|[\w.%-]*)(:\d*)?")
GRAPH_SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")


def _seconds(value: object) -> object:
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(str(value))
    if not 0 < seconds <= LONGEST.total_seconds():
        raise ValueError("out of range")
    duration = timedelta(seconds=seconds)
    if not duration:
        raise ValueError("nothing is left of it in microseconds")
    return duration


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _home(value: Path) -> Path:
    try:
        value.expanduser()
    except RuntimeError as error:
        raise ValueError("no such user") from error
    return value


def _database_url(value: SecretStr) -> SecretStr:
    url = value.get_secret_value()
    parts = urlsplit(url)
    if parts.scheme not in DATABASE_SCHEMES or not (parts.netloc or parts.query):
        raise ValueError("not a PostgreSQL URL")
    # What a password holds unencoded ends it too early: the rest would pass for a host, a database or a parameter,
    # and be shown as such. What is encoded badly libpq shows as it is.
    userinfo, _, hosts = parts.netloc.rpartition("@")
    if "@" in userinfo or url.count("@") != parts.netloc.count("@") or BAD_ESCAPE.search(url):
        raise ValueError("characters that are not percent-encoded")
    # libpq takes several hosts in one URL, which urlsplit cannot tell from a bad port.
    if not all(PLACE.fullmatch(each) for each in hosts.split(",")):
        raise ValueError("not a host and port")
    if "," not in hosts:
        _ = parts.port
    return value


def _graph_url(value: str) -> str:
    parts = urlsplit(value)
    if (
        parts.scheme not in GRAPH_SCHEMES
        or not parts.hostname
        or parts.path not in {"", "/"}
        or {"?", "#"} & set(value)
    ):
        raise ValueError("not a Bolt URL")
    _ = parts.port
    return value


Seconds = Annotated[timedelta, BeforeValidator(_seconds)]
Port = Annotated[int, Field(ge=0, le=65535)]

A_DURATION = "seconds, more than 0 and at most 86400, such as 2 or 0.5"
A_PORT = "a port number from 0 to 65535, where 0 takes any free one"


class Settings(BaseSettings):
    """Every setting; the `description` of a field says what it accepts."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True, hide_input_in_errors=True
    )

    home: Annotated[Path, AfterValidator(_home)] = Field(
        Path(".retold"), description="the path of a folder that can be written"
    )
    tenant: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] = Field(
        "default", description="1 to 100 letters, digits, dots, dashes or underscores"
    )

    database_url: Annotated[SecretStr, AfterValidator(_database_url)] | None = Field(
        None,
        description="postgresql://user:password@host:port/database, "
        "and percent-encode special characters in user and password",
    )
    database_connect_timeout: Seconds = Field(timedelta(seconds=5), description=A_DURATION)
    postgres_port: Port = Field(0, description=A_PORT)

    graph_url: Annotated[str, AfterValidator(_graph_url)] | None = Field(
        None, description="bolt://host:port or neo4j://host:port, also with +s or +ssc, and without a path or a query"
    )
    graph_user: Annotated[str, StringConstraints(min_length=1)] = Field("neo4j", description="the name of a user")
    graph_password: SecretStr | None = Field(None, description="the password of that user")
    graph_database: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")] = Field(
        "neo4j", description="the name of a database: letters, digits, dots, dashes or underscores"
    )
    graph_connect_timeout: Seconds = Field(timedelta(seconds=5), description=A_DURATION)
    # A graph that is silent for this long counts as down.
    graph_timeout: Seconds = Field(timedelta(seconds=10), description=A_DURATION)
    bolt_port: Port = Field(0, description=A_PORT)

    batch_size: Annotated[int, Field(ge=1, le=1000)] = Field(500, description="a whole number from 1 to 1000")
    poll_interval: Seconds = Field(timedelta(seconds=2), description=A_DURATION)
    max_attempts: Annotated[int, Field(ge=1, le=1000)] = Field(3, description="a whole number from 1 to 1000")
    stuck_after: Seconds = Field(timedelta(seconds=30), description=A_DURATION)
    hints: bool = Field(True, description="true or false")
    projector_host: Annotated[str, StringConstraints(pattern=r"^\S+$")] = Field(
        "127.0.0.1", description="the address to listen on, such as 127.0.0.1"
    )
    projector_port: Port = Field(9464, description=A_PORT)

    log_format: Annotated[Literal["auto", "console", "json"], BeforeValidator(_lower)] = Field(
        "auto", description="auto, console or json"
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        "info", description="debug, info, warning or error"
    )

    @model_validator(mode="before")
    @classmethod
    def _credentials_out_of_the_graph_url(cls, given: Any) -> Any:  # noqa: ANN401 (pydantic hands over what it has)
        url = given.get("graph_url") if isinstance(given, dict) else None
        if not isinstance(url, str) or "@" not in url:
            return given
        return _split_credentials(given, url)

    @classmethod
    def settings_customise_sources(  # the signature is pydantic's
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings)


def load_settings() -> Settings:
    """The settings of this process.

    Raises RuleBroken with one line a mistake: the variable, what it holds (never a secret) and what it accepts.
    """
    _refuse_unknown(os.environ)
    try:
        return Settings()
    except ValidationError as error:
        names = dict.fromkeys(str(each["loc"][0]) for each in error.errors(include_input=False, include_url=False))
        raise RuleBroken("\n".join(_complaint(name, os.environ) for name in names)) from None


def variable(field: str) -> str:
    """The environment variable of a field of Settings."""
    return PREFIX + field.upper()


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    """Case does not count, as it does not where the variables are read."""
    known: dict[str, list[str]] = {variable(name): [] for name in Settings.model_fields}
    for name in sorted(environ):
        meant = name.upper()
        if not meant.startswith(PREFIX) or meant.startswith(FOREIGN_PREFIXES):
            continue
        if meant not in known:
            close = difflib.get_close_matches(meant, known, n=1)
            advice = f"did you mean {close[0]}?" if close else f"the settings are {', '.join(sorted(known))}."
            raise RuleBroken(f"{name} is not a setting of Retold: {advice}")
        known[meant].append(name)
    for names in known.values():
        if len(names) > 1:
            raise RuleBroken(f"{' and '.join(names)} are the same setting: leave one of them out.")


def _complaint(name: str, environ: Mapping[str, str]) -> str:
    field = Settings.model_fields[name]
    given = next((value for each, value in environ.items() if each.upper() == variable(name)), "")
    return f"{variable(name)} is {_shown(name, given)}: give {field.description}."


def _shown(name: str, value: str) -> str:
    if "SecretStr" in str(Settings.model_fields[name].annotation):
        return "not valid (its value is not shown)"
    return repr(without_credentials(value))


def without_credentials(url: str) -> str:
    """The URL with everything before its host's `@` left out, for messages and logs."""
    return re.sub(r"^([\w+.-]*://)?.*@", lambda match: f"{match.group(1) or ''}…@", url, flags=re.DOTALL)


def _split_credentials(given: Mapping[str, Any], url: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
    except ValueError:  # left for the field itself to refuse, which names the variable
        return dict(given)
    split = {**given, "graph_url": urlunsplit(_without_userinfo(parts))}
    for field, value in (("graph_user", parts.username), ("graph_password", parts.password)):
        if not value:
            continue
        if field in given:
            raise RuleBroken(f"RETOLD_GRAPH_URL and {variable(field)} both say it: leave one of them out.")
        split[field] = unquote(value)
    return split


def _without_userinfo(parts: SplitResult) -> SplitResult:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2])
