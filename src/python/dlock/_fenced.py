"""Commands to data, which the server refuses from a late holder."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from ._report import Key


class Redis(Protocol):
    """The part of a redis-py client that dlock needs."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Sends a command."""


R = TypeVar("R", bound=Redis)


class Fenced(Generic[R]):
    """Sends commands that the server refuses if they come too late: with an error that begins with STALE if a
    later holder has been there. Send reads this way, too."""

    __slots__ = ("_before", "_client")

    def __init__(self, client: R, *before: Key | int) -> None:
        self._client = client
        self._before = before

    def execute_command(self, *args: Any) -> Any:
        """Sends a command by ``DLOCK.FENCED``, and returns the server's reply unchanged."""
        return self._client.execute_command(*self._before, *args)
