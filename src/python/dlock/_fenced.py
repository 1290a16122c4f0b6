"""Commands to data that refuse a late holder."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from ._errors import Key


class Redis(Protocol):
    """A client of redis-py, as far as this needs it."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Sends a command."""


R = TypeVar("R", bound=Redis)


class Fenced(Generic[R]):
    """Commands that carry a fence. The server refuses one, with an error that begins with STALE, if a
    later holder has been there. Reads belong under the fence as much as writes."""

    __slots__ = ("_client", "_fence", "_mark")

    def __init__(self, client: R, mark: Key, fence: int) -> None:
        self._client = client
        self._mark = mark
        self._fence = fence

    def execute_command(self, *args: Any) -> Any:
        """Sends a command by ``DLOCK.FENCED``. The reply is as the server gives it."""
        return self._client.execute_command("DLOCK.FENCED", self._mark, self._fence, *args)
