"""The base of the threaded and the asyncio clients."""

from __future__ import annotations

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
        notices = None if notify is None else _hooks.notices(notify)
        self._native = _options.connect(nodes, node_timeout, notices)

    @property
    def nodes(self) -> list[str]:
        """The addresses of the nodes, without user and password."""
        return self._native.nodes()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Client {', '.join(self.nodes)}>"
