"""The base of the threaded and the asyncio clients."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from . import _hooks, _native
from ._options import LockOptions, Seconds
from ._own import Own
from ._report import Key, Notice


class BaseClient(Own):
    """A client of one node, or of several that make a majority together."""

    def __init__(
        self,
        nodes: str | Iterable[str] | None = None,
        *,
        node_timeout: Seconds | None = None,
        notify: Callable[[Notice], object] | None = None,
    ) -> None:
        if notify is not None and not callable(notify):
            raise TypeError(f"notify is a function, not {type(notify).__name__}")
        self._notify = notify
        notices = None if notify is None else _hooks.notices(weakref.WeakMethod(self._tell))
        try:
            given, environment = _addresses(nodes), os.environ.get("DLOCK_NODES")
            self._native = _native.Client(given, environment, node_timeout, notices)
        except BaseException:
            if notices is not None:
                _hooks.forget(notices)
            raise

    def _lock(self, key: Key, options: LockOptions) -> _native.Lock:
        return _native.Lock(self._used(), key, **options)

    def _used(self) -> _native.Client:
        """The client, which is about to be used: from now on threads pass on its log lines. Not from its
        beginning: a server that imports the program and forks just then would copy threads that are about to
        start."""
        _hooks.follow()
        return self._native

    def _tell(self, notice: Notice) -> None:
        if self._notify is not None:
            self._notify(notice)

    @property
    def nodes(self) -> list[str]:
        """The addresses of the nodes, without user and password."""
        return self._native.nodes()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Client {', '.join(self.nodes)}>"


def _addresses(nodes: object) -> list[str] | None:
    if nodes is None:
        return None
    is_one = isinstance(nodes, (str, bytes, Mapping)) or not isinstance(nodes, Iterable)
    given = [nodes] if is_one else list(cast("Iterable[object]", nodes))
    for address in given:
        if not isinstance(address, str):
            raise TypeError(f"nodes are addresses, each a str, not {type(address).__name__}")
    return cast("list[str]", given)
