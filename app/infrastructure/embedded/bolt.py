"""Whether a server answers over Bolt, asked with the driver that Retold itself uses."""

import neo4j
from neo4j.exceptions import AuthError, ClientError, DriverError, Neo4jError

from app.infrastructure.graph.endpoint import GraphEndpoint


def answers(endpoint: GraphEndpoint) -> bool:
    """Whether a query on the endpoint's own database comes back."""
    try:
        _run(endpoint, "RETURN 1")
    except (DriverError, Neo4jError, OSError):
        return False
    return True


def set_first_password(endpoint: GraphEndpoint, initial: str) -> bool:
    """Replace the password that a new Neo4j comes with; False while the server does not answer yet."""
    fresh = GraphEndpoint(endpoint.url, endpoint.user, initial, "system")
    try:
        _run(fresh, "ALTER CURRENT USER SET PASSWORD FROM $old TO $new", old=initial, new=endpoint.password)
    except (AuthError, ClientError):
        # Changed already: by an earlier start, or by one that was killed right after it.
        return answers(endpoint)
    except (DriverError, Neo4jError, OSError):
        return False
    return True


def _run(endpoint: GraphEndpoint, query: str, **parameters: str) -> None:
    with (
        neo4j.GraphDatabase.driver(
            endpoint.url,
            auth=(endpoint.user, endpoint.password),
            connection_timeout=2,
            connection_acquisition_timeout=3,
            max_transaction_retry_time=0,
        ) as driver,
        driver.session(database=endpoint.database) as session,
    ):
        session.run(query, parameters).consume()
