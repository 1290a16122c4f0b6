"""Jobs of APScheduler 3 on several hosts: each fire runs on one of them.

Run it on each: DLOCK_NODES=redis://localhost python apscheduler_job.py
"""

import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.pool import BasePoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler

import dlock


class OnceExecutor(BasePoolExecutor):  # type: ignore[misc]
    """Runs each fire of a job on one of the hosts. Its keys are a job's id and a fire time, as with
    ``dlock run --fire``, so hosts agree on them even if their clocks differ. The window must be longer than
    that difference. A host that comes while the job runs waits, and runs it if that host crashes or the job
    fails."""

    def __init__(self, client: dlock.Client, window: float = 3600, max_workers: int = 10) -> None:
        super().__init__(_Pool(client, window, max_workers))


class _Pool(ThreadPoolExecutor):
    def __init__(self, client: dlock.Client, window: float, max_workers: int) -> None:
        super().__init__(max_workers)
        self.client, self.window = client, window

    def submit(self, run_job: Any, job: Any, *where: Any) -> "Future[Any]":
        return super().submit(self._once, run_job, job, *where)

    def _once(
        self, run_job: Any, job: Any, store: str, run_times: "list[datetime]", logger: str
    ) -> "list[Any]":
        events: list[Any] = []
        for time in run_times:
            lock = self.client.lock(f"{job.id}@{time.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}")
            # What was done elsewhere has no event here.
            with contextlib.suppress(dlock.DoneError), lock as guard:
                ran = run_job(job, store, [time], logger)
                events += ran
                if all(event.code == EVENT_JOB_EXECUTED for event in ran):
                    guard.done(self.window)
        return events


def report() -> None:
    """The job."""
    if os.environ.get("DISK") == "full":
        raise OSError("no space left")
    print("reports", datetime.now(timezone.utc).isoformat(), flush=True)


def main(**when: object) -> None:
    """Runs the job at these times."""
    # A host that has waited for another one runs the job late. By default APScheduler leaves it out then.
    scheduler = BlockingScheduler(job_defaults={"misfire_grace_time": 600})
    scheduler.add_executor(OnceExecutor(dlock.Client()))
    scheduler.add_job(report, "cron", id="report", **when)
    scheduler.start()


if __name__ == "__main__":
    main(hour=3)
