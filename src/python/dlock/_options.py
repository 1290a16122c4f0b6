"""Options of clients and locks, and the logger, for threads and asyncio alike."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TypedDict, Union

from . import _native

Seconds = Union[float, timedelta]
"""A length of time: a number of seconds, or a timedelta."""

TTL = 30.0
"""The default lease, in seconds."""

logger = logging.getLogger("dlock")


class Options(TypedDict, total=False):
    """The options of a lock."""

    ttl: Seconds
    shared: bool
    limit: int | None
    ephemeral: bool
    meta: str
    max_hold: Seconds | None
    renew: bool


def connect(
    nodes: str | Iterable[str] | None,
    node_timeout: Seconds | None,
    place: Callable[[], tuple[_native.Post, int]] | None = None,
) -> _native.Client:
    """Makes the Rust client. It does not connect yet."""
    tell()
    if nodes is None:
        return _native.Client(None, os.environ.get("DLOCK_NODES"), node_timeout, place)
    given = [nodes] if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Iterable) else list(nodes)
    for address in [nodes] if isinstance(nodes, Mapping) else given:
        if not isinstance(address, str):
            raise TypeError(f"nodes are addresses, each a str, not {type(address).__name__}")
    return _native.Client(given, None, node_timeout, place)


def tell() -> None:
    """Sets the library's log level to the logger's present one."""
    _native.set_level(logger.getEffectiveLevel())


def is_coroutine_function(function: object) -> bool:
    """True if a function to decorate is a coroutine function, or an object with such a ``__call__``."""
    if not callable(function):
        raise TypeError(f"a lock decorates a function, not {type(function).__name__}")
    called = (function, getattr(type(function), "__call__"))  # noqa: B004, B009
    if any(inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body) for body in called):
        raise TypeError("a generator runs when the lock is released already; use the lock inside of it")
    return any(inspect.iscoroutinefunction(body) for body in called)


def lock(
    client: _native.Client,
    key: str | bytes,
    ttl: Seconds = TTL,
    shared: bool = False,
    limit: int | None = None,
    ephemeral: bool = False,
    meta: str = "",
    max_hold: Seconds | None = None,
    renew: bool = True,
) -> _native.Lock:
    """Makes the Rust lock."""
    tell()
    return _native.Lock(client, key, ttl, shared, limit, ephemeral, meta, max_hold, renew)
