"""One and the same case for dlock, which must do what it asks for, and for other lock libraries: what these
do is printed. docs/contributing/others-tests.md shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis_lock

import dlock
from server import PATIENCE, Server

LEASE = 1
"""Seconds; python-redis-lock takes whole ones."""

Show = Callable[..., None]


class Library:
    """A lock library; `lock` makes the same lock for one client more. Without a lease dlock renews it, and for
    the others it has no end."""

    def __init__(self, name: str, server: Server) -> None:
        self.name = name
        self._server = server

    def lock(self, lease: int | None = None) -> Any:
        if self.name == "dlock":
            return Ours(self._server, lease)
        client = self._server.redis()
        if self.name == "redis-py":
            return client.lock("key", timeout=lease, thread_local=False)
        return redis_lock.Lock(client, "key", expire=lease)


class Ours:
    """dlock's lock with the methods of the others."""

    def __init__(self, server: Server, lease: int | None) -> None:
        leased: dlock.LockOptions = {"ttl": lease, "renew": False} if lease else {}
        self._lock = dlock.Client(server.url).lock("key", **leased)
        self._guard: dlock.Guard | None = None

    def acquire(self, blocking: bool = True) -> bool:
        self._guard = self._lock.acquire() if blocking else self._lock.try_acquire()
        return self._guard is not None

    def release(self) -> None:
        assert self._guard is not None
        self._guard.release()


@pytest.fixture(params=["dlock", "redis-py", "python-redis-lock"])
def library(request: pytest.FixtureRequest, server: Server) -> Library:
    return Library(request.param, server)


@pytest.fixture
def show(library: Library, capsys: pytest.CaptureFixture[str]) -> Show:
    def show(case: str, verdict: object, expected: object) -> None:
        with capsys.disabled():
            print(f"\n{case}: {library.name}: {verdict}")
        if library.name == "dlock":
            assert verdict == expected

    return show


def wait_for(lock: Any, got: Callable[[], None]) -> threading.Thread:
    """Waits for a lock in a thread, without limit."""

    def wait() -> None:
        # The end of the server ends the remaining waiters.
        try:
            if lock.acquire():
                got()
        except redis.ConnectionError:
            pass

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_a_waiter_for_a_holder_that_died_is_served_when_its_lease_ends(library: Library, show: Show) -> None:
    assert library.lock(LEASE).acquire()
    served = threading.Event()
    wait_for(library.lock(), served.set)
    # For dlock this is no hurry.
    show("the holder died", served.wait(PATIENCE if library.name == "dlock" else 10 * LEASE), True)


ROUNDS = 20


def test_a_waiter_is_served_before_a_later_attempt_that_does_not_wait(
    library: Library, server: Server, show: Show
) -> None:
    overtaken = 0
    for _ in range(ROUNDS):
        holder, newcomer = library.lock(), library.lock()
        assert holder.acquire()
        served = threading.Event()
        waiter = library.lock()
        thread = wait_for(waiter, served.set)
        until_it_waits(library, server, 1)
        holder.release()
        if newcomer.acquire(blocking=False):
            overtaken += 1
            newcomer.release()
        assert served.wait(PATIENCE)
        thread.join()
        waiter.release()
    show(f"overtaken in {ROUNDS} rounds", overtaken, 0)


def test_waiters_are_served_in_the_order_in_which_they_came(
    library: Library, server: Server, show: Show
) -> None:
    rounds = [_order_of_service(library, server) for _ in range(ROUNDS)]
    show(f"in order in {ROUNDS} rounds", rounds.count([0, 1, 2, 3]), ROUNDS)


def _order_of_service(library: Library, server: Server) -> list[int]:
    """Lets four wait, and returns the order in which they hold the lock."""
    holder = library.lock()
    assert holder.acquire()
    served: list[int] = []
    threads = []
    for number in range(4):
        lock = library.lock()

        def got(number: int = number, lock: Any = lock) -> None:
            served.append(number)
            lock.release()

        threads.append(wait_for(lock, got))
        until_it_waits(library, server, number + 1)
    holder.release()
    for thread in threads:
        thread.join()
    return served


def until_it_waits(library: Library, server: Server, count: int) -> None:
    """Returns once this many wait. The waiters of redis-py sleep, which no command shows."""
    if library.name == "redis-py":
        time.sleep(0.05)
    elif library.name == "dlock":
        server.until_waiting("key", count)
    else:
        while server.run("CLIENT", "LIST").decode().count("cmd=blpop") < count:
            time.sleep(0.005)
