"""What clients and locks of both kinds have in common: options, and what the library tells."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
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


def connect(nodes: str | Iterable[str], node_timeout: Seconds | None) -> _native.Client:
    """A client in Rust. It does not connect yet."""
    tell()
    given = [nodes] if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Iterable) else list(nodes)
    for address in [nodes] if isinstance(nodes, Mapping) else given:
        if not isinstance(address, str):
            raise TypeError(f"nodes are addresses, each a str, not {type(address).__name__}")
    return _native.Client(given, node_timeout)


def tell() -> None:
    """Lets the library tell what the logger wants to hear, at its present level."""
    _native.set_level(logger.getEffectiveLevel())


def lock(
    client: _native.Client,
    key: str | bytes,
    ttl: Seconds = TTL,
    shared: bool = False,
    limit: int | None = None,
    ephemeral: bool = False,
    meta: str = "",
    max_hold: Seconds | None = None,
) -> _native.Lock:
    """A lock in Rust."""
    tell()
    return _native.Lock(client, key, ttl, shared, limit, ephemeral, meta, max_hold)
