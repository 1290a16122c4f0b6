"""A job for cron on several machines: it runs on one of them, and the others wait, in case that one fails.

Run it: DLOCK_NODES=redis://localhost python cron.py
"""

import sys

import dlock


def nightly(_guard: dlock.Guard) -> None:
    """The job."""
    print("runs", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    try:
        dlock.Client().lock("nightly").run_once(12 * 3600, nightly)
    except dlock.DoneError:
        print("done already", flush=True)
