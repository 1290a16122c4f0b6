"""Greenlets: with gevent's or eventlet's patches a thread must not block, for it runs all of them."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import TypeVar, cast

from . import _native

T = TypeVar("T")


def is_patched() -> bool:
    """Whether ``select`` gives way to other greenlets."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("select"):
        return True
    eventlet = sys.modules.get("eventlet.patcher")
    return eventlet is not None and bool(eventlet.is_monkey_patched("select"))


def call(now: Callable[..., T], later: Callable[..., _native.Ticket | None], *how: object) -> T:
    """Does this work, and waits for its outcome: as threads do, or while other greenlets run."""
    if is_patched():
        return cast(T, _wait(later, how))
    return now(*how)


def _wait(later: Callable[..., _native.Ticket | None], how: tuple[object, ...]) -> object:
    post = _native.Post()
    ticket = later(post, 0, *how)
    try:
        _until_readable(post.fileno())
    except BaseException:
        # The greenlet is killed, or a time-out is over. A guard that has arrived goes with the post.
        if ticket is not None:
            ticket.cancel()
        raise
    [(_, outcome)] = _native.collect(post)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _until_readable(descriptor: int) -> None:
    # gevent's `select` takes no number above 1023, and with eventlet there is no `poll`.
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
    else:
        select.select([descriptor], [], [])
