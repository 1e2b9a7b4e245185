"""Where a graph server listens and who we are there."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GraphEndpoint:
    """A Bolt URL without credentials, the user, their password (never shown) and the database."""

    url: str
    user: str
    password: str = field(repr=False)
    database: str
