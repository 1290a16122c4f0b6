"""A Celery task that must not run twice at a time, for one account.

Run it: DLOCK_NODES=redis://localhost celery --app celery_task worker --concurrency 4
and on two hosts, one of them active: dlock run beat -- celery --app celery_task beat
"""

import os

from celery import Celery

import dlock

NODES = os.environ.get("DLOCK_NODES", "redis://localhost")

app = Celery("celery_task", broker=os.environ.get("BROKER", NODES))
app.conf.beat_schedule = {
    "settle": {"task": "celery_task.settle", "args": (7,), "schedule": float(os.environ.get("EVERY", "86400"))}
}
# Made before Celery forks its workers: each of them opens connections of its own.
client = dlock.Client(NODES)


@app.task(autoretry_for=(dlock.HeldError, dlock.NoQuorumError), retry_backoff=True)
def settle(account: int) -> None:
    """Settles an account. A task that does not get the lock in time runs again later."""
    with client.lock(f"account:{account}", wait=60) as guard:
        with open(os.environ["LEDGER"], "a") as ledger:
            print("begin", account, guard.fence, file=ledger, flush=True)
            guard.check()
            print("end", account, guard.fence, file=ledger, flush=True)
