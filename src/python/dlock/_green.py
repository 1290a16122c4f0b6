"""Greenlets: with gevent's or eventlet's patches a thread must not block, because it runs all of them."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import Any

from . import _native


def is_patched() -> bool:
    """True if ``select`` lets other greenlets run."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("select"):
        return True
    eventlet = sys.modules.get("eventlet.patcher")
    return eventlet is not None and bool(eventlet.is_monkey_patched("select"))


def call(begin: Callable[..., Any], *how: object) -> Any:
    """Begins this work, and waits for its outcome: in this thread, or while other greenlets run."""
    if not is_patched():
        return begin(None, *how)
    queue = _native.OutcomeQueue()
    return outcome(queue, begin((queue, 0), *how))


def outcome(queue: _native.OutcomeQueue, task: _native.Task | None) -> object:
    """Waits for the one outcome in this queue, while other greenlets run."""
    try:
        until_readable(queue.fileno())
    except BaseException:
        # The greenlet is killed, or a time-out is over. Dropping the queue releases a guard that has arrived.
        if task is not None:
            task.cancel()
        # The exception refers to this call.
        del queue
        raise
    [(_, arrived)] = queue.collect()
    if isinstance(arrived, BaseException):
        raise arrived
    return arrived


def until_readable(descriptor: int) -> None:
    """Waits while other threads and greenlets run."""
    # gevent's `select` takes no number above 1023, and with eventlet there is no `poll`.
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
    else:
        select.select([descriptor], [], [])
