"""An ``env.py`` of Alembic, for several replicas that migrate when they start: one does, and the others find
nothing to do. Alembic reads the present revision in ``run_migrations``, while the lock is held."""

from alembic import context
from sqlalchemy import create_engine

import dlock


def migrate() -> None:
    """Migrates the database, unless another replica did meanwhile."""
    url = context.config.get_main_option("sqlalchemy.url")
    with dlock.Client().lock("alembic"), create_engine(url).connect() as connection:
        context.configure(connection=connection)
        with context.begin_transaction():
            context.run_migrations()


migrate()
