"""Programs with redis-py's own lock that write a history, as docs/contributing/histories.md describes it.

tests/hazards runs them.

Usage: histories.py PORT CLIENTS TTL LONGEST_HOLD ROUND, in milliseconds; it ends with its input.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
import uuid

import redis
from redis.exceptions import LockError, RedisError

CLIENTS, TTL, LONGEST_HOLD, ROUND = (int(word) for word in sys.argv[2:6])
BEGUN = time.monotonic_ns()
printing = threading.Lock()


def now() -> int:
    """The time on the machine's monotonic clock, in microseconds."""
    return time.monotonic_ns() // 1_000


def write(**line: object) -> None:
    """Writes one line of the history."""
    with printing:
        print(json.dumps(line), flush=True)


def contend(process: str) -> None:
    """Wants the lock of the moment, again and again."""
    server = redis.Redis(port=int(sys.argv[1]), socket_timeout=0.2)
    while True:
        key, who = f"job:{(time.monotonic_ns() - BEGUN) // (ROUND * 1_000_000)}", uuid.uuid4().hex
        names = {"process": process, "key": key, "who": who}
        lock = server.lock(key, timeout=TTL / 1e3, blocking=False)
        invoke = now()
        try:
            taken = lock.acquire()
            heard = "done" if taken else "refused"
        except RedisError:
            taken, heard = False, "nothing"
        asked = {"asked": "acquire", "mode": "exclusive", "invoke": invoke, "return": now()}
        if not taken:
            write(**names, **asked, heard=heard)
            time.sleep(random.uniform(0.005, 0.03))
            continue
        # The library states no end: this is the earliest that it can be.
        until = invoke + TTL * 1_000
        write(**names, **asked, heard=heard, until=until)
        time.sleep(max(0, min(random.uniform(0, LONGEST_HOLD / 1e3), (until - now()) / 1e6)))
        invoke = now()
        try:
            lock.release()
            heard = "done"
        except (LockError, RedisError):
            heard = "nothing"
        write(**names, asked="release", invoke=invoke, **{"return": now()}, heard=heard)


for number in range(CLIENTS):
    threading.Thread(target=contend, args=(f"redis-py {number}",), daemon=True).start()
sys.stdin.read()
# Nobody writes half a line.
printing.acquire()
