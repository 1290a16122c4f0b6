"""A job that cron starts on several hosts: one of them runs it."""

from typing import Any

from django.core.management.base import BaseCommand

import dlock

client = dlock.Client()


class Command(BaseCommand):
    """Runs the nightly job, once in twelve hours."""

    def handle(self, *_: Any, **__: Any) -> None:
        try:
            client.lock("nightly").run_once(12 * 3600, self._work)
        except dlock.DoneError as done:
            self.stdout.write(f"done already, and again in {done.left:.0f} s")

    def _work(self, _: dlock.Guard) -> None:
        self.stdout.write("works")
