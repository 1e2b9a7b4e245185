"""Every error that a caller of Retold can act on, told apart by what the caller can do.

    RetoldError
    ├── NotFound        ask for something else          HTTP 404, exit code 4
    ├── Conflict        read again and retry            HTTP 409, exit code 5
    │   └── SessionNotActive
    ├── RuleBroken      change the request              HTTP 422, exit code 6
    └── Unavailable     try later                       HTTP 503, exit code 7
        ├── LogUnavailable      PostgreSQL does not answer
        └── GraphUnavailable    the graph server does not answer, or the outcome of a commit is unknown

A message is one sentence that says what was looked for, where, and what to do next.
"""


class RetoldError(Exception):
    """What Retold refuses or cannot do; `code` is its stable name for programs."""

    code = "error"


class NotFound(RetoldError):
    """What was asked for does not exist."""

    code = "not_found"


class Conflict(RetoldError):
    """The state is not the one the caller decided on; nothing was stored."""

    code = "conflict"


class SessionNotActive(Conflict):
    """A conversation event was meant for a session that is closed."""

    code = "session_not_active"


class RuleBroken(RetoldError):
    """The request itself is wrong; nothing was stored."""

    code = "rule_broken"


class Unavailable(RetoldError):
    """A server that is needed does not answer."""

    code = "unavailable"


class LogUnavailable(Unavailable):
    """PostgreSQL cannot be reached, refuses us, or went away in mid-work."""

    code = "log_unavailable"


class GraphUnavailable(Unavailable):
    """The graph server cannot be reached, refuses us, went away, or left the outcome of a commit unknown."""

    code = "graph_unavailable"
