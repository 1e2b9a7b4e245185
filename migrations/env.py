"""Runs the migrations on the connection it is given, or, for the alembic command, on RETOLD_DATABASE_URL."""

import os

from alembic import context
from sqlalchemy import Connection

from app.infrastructure.postgres.engine import make_engine
from app.infrastructure.postgres.tables import metadata


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with make_engine(os.environ["RETOLD_DATABASE_URL"]).connect() as own:
        run(own)
