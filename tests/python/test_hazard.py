"""A hazard of the usual recipe in Python that dlock does not have."""

from __future__ import annotations

import ctypes
import threading

from redis.exceptions import LockError

import dlock
from server import LEASE, Server


def test_the_interpreter_is_busy_and_renewal_comes_too_late(
    server: Server, client: dlock.Client, key: str
) -> None:
    ended = threading.Event()
    with server.redis() as redis:
        recipe = redis.lock(f"{key}:recipe", timeout=LEASE, thread_local=False)

        def renew() -> None:
            while not ended.wait(LEASE / 3):
                try:
                    recipe.reacquire()
                except LockError:
                    return

        assert recipe.acquire()
        renewal = threading.Thread(target=renew)
        renewal.start()
        with client.lock(f"{key}:dlock", ttl=LEASE) as guard:
            # One call that keeps the GIL for two leases, as a call of a C library may.
            ctypes.PyDLL(None).usleep(int(2 * LEASE * 1e6))
            guard.check()
            assert server.fence(f"{key}:dlock") == guard.fence
        assert not recipe.owned()
        ended.set()
        renewal.join()
