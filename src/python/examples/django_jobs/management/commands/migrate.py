"""Migrations at the start of several replicas: one carries them out, and the others find nothing to do.

An application's command takes the place of Django's own. No connection to the database holds the lock, so a
pool of connections, as PgBouncer has, cannot break it.
"""

from typing import Any

from django.core.management.commands import migrate

import dlock

client = dlock.Client()


class Command(migrate.Command):
    """Django's ``migrate``, for one replica after the other."""

    def handle(self, *args: Any, **options: Any) -> None:
        with client.lock(f"migrate:{options['database']}"):
            super().handle(*args, **options)
