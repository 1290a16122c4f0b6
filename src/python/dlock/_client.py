"""The base of the threaded and the asyncio clients."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

from . import _hooks, _options
from ._options import Seconds
from ._own import Own
from ._report import Notice


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
        self._native = _options.connect(nodes, node_timeout, notices)

    def _tell(self, notice: Notice) -> None:
        if self._notify is not None:
            self._notify(notice)

    @property
    def nodes(self) -> list[str]:
        """The addresses of the nodes, without user and password."""
        return self._native.nodes()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Client {', '.join(self.nodes)}>"
