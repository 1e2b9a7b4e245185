"""Where a server is, as it may be shown, with nothing of who may enter; and where one may listen."""

import socket
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

SECRET: Final = {"user", "password", "passfile", "sslpassword", "sslkey"}
"""What libpq also takes as parameters of a URL."""

ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (told apart, not bound)
"""Where one asks a server that listens on every address."""


def shown(url: str) -> str:
    """The URL without user and password, as a URL that can be used."""
    parts = urlsplit(url)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name not in SECRET])
    # By hand: the standard library takes the slashes away from a URL without a host.
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{'?' if query else ''}{query}"


def http_url(host: str, port: int) -> str:
    """Where a server that listens on `host` is asked from this machine."""
    near = ANY.get(host, host)
    return f"http://[{near}]:{port}" if ":" in near else f"http://{near}:{port}"


def host_refusal(host: str) -> str | None:
    """Why this machine cannot listen on `host`, whatever the port; None where it can."""
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None
