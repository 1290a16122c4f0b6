"""The options of a lock, and the logger, for threads and asyncio alike."""

from __future__ import annotations

import inspect
import logging
from datetime import timedelta
from typing import TypedDict, TypeVar, Union

Seconds = Union[float, timedelta]
"""A length of time: a number of seconds, or a timedelta."""

T = TypeVar("T")

logger = logging.getLogger("dlock")


class LockOptions(TypedDict, total=False):
    """The options of a lock."""

    ttl: Seconds
    """The lease, 30 seconds by default. If this process crashes, the lock is free again after this time. While
    the process runs, the client renews the lease each time a third of it has passed."""
    wait: Seconds | None
    """Limit of the wait for the lock; by default there is none, and 0 is no wait."""
    shared: bool
    """True for readers: any number of them hold the lock together, and no writer beside them."""
    limit: int | None
    """For a semaphore: this many clients hold it together, on a single node only."""
    meta: str
    """A text about the holder, for clients that inspect the lock."""
    max_hold: Seconds | None
    """Limit of the hold: after this time the lock is lost, even if every renewal succeeds."""
    again: bool
    """True takes the lock even if its last holder left it done."""
    renew: bool
    """False for one lease without renewal: the lock ends with it, unless the guard extends or releases it
    before. Then a guard that is garbage-collected leaves the lease to its end. The default is True."""


def check_function(function: object) -> None:
    """Raises TypeError for an object that cannot be decorated."""
    if not callable(function):
        raise TypeError(f"a lock decorates a function, not {type(function).__name__}")


def ended(result: T) -> T:
    """Returns the result of work. Raises TypeError if that is work still to be done, without the lock."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(
            f"the work has not begun: it is a {type(result).__name__}."
            " Use dlock.asyncio for coroutines, and the lock inside of a generator"
        )
    return result
