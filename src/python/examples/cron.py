"""A job for cron on several machines: it runs on one of them, and the others end at once.

Run it: DLOCK_NODES=redis://localhost python cron.py
"""

import os
import sys

import dlock

client = dlock.Client()


@client.lock("nightly", wait=0, meta=f"process {os.getpid()}")
def nightly() -> None:
    """The job."""
    print("runs", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    try:
        nightly()
    except dlock.HeldError as held:
        print("runs elsewhere:", held.holder.meta if held.holder else "", flush=True)
