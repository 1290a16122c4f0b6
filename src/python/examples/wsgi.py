"""A program for WSGI servers that forks after it was loaded.

Run it: DLOCK_NODES=redis://localhost gunicorn --preload --workers 4 wsgi:app
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable

import dlock

# Made before gunicorn forks its workers: each of them opens connections of its own.
client = dlock.Client()

Start = Callable[[str, list[tuple[str, str]]], object]


def app(environ: dict[str, object], start: Start) -> Iterable[bytes]:
    """Answers with the fence of a lock, and the process that held it."""
    try:
        with client.lock("report", wait=60) as guard:
            answer = f"{os.getpid()} {guard.fence}"
    except dlock.Error as error:
        wait = "" if error.retry_after is None else str(math.ceil(error.retry_after))
        start("503 Service Unavailable", [("Retry-After", wait or "1")])
        return [str(error).encode()]
    start("200 OK", [("Content-Type", "text/plain")])
    return [answer.encode()]
