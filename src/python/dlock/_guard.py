"""The base of the threaded and the asyncio guards."""

from __future__ import annotations

from . import _native
from ._own import Own
from ._report import Key


class BaseGuard(Own):
    """A lock that is held."""

    __slots__ = ()
    _native: _native.Guard

    @property
    def key(self) -> Key:
        """The lock; ``str`` where its name is UTF-8."""
        return self._native.key

    @property
    def fence(self) -> int:
        """The number of this acquisition: larger than the fence of any earlier one of the same lock. Show it
        to services that can refuse a smaller one."""
        return self._native.fence

    @property
    def token(self) -> str:
        """The token of this holder at the nodes. A secret: any client that has it can release the lock."""
        return self._native.token

    @property
    def ttl(self) -> float:
        """The length of lease that it asks for, in seconds. A node may grant a shorter one."""
        return self._native.ttl

    @property
    def valid_for(self) -> float:
        """Seconds until the validity ends if no renewal succeeds; 0 once the lock is lost. The clock
        goes on while the machine sleeps."""
        return self._native.valid_for()

    @property
    def is_valid(self) -> bool:
        """True if the lock is certainly held at this moment."""
        return self._native.is_valid()

    def check(self) -> None:
        """Raises LostError unless the lock is certainly held at this moment."""
        if not self._native.is_valid():
            loss = self._native.loss()
            if loss is not None:
                raise loss

    def __repr__(self) -> str:
        state = f"valid for {self.valid_for:.1f} s" if self.is_valid else "not held"
        return f"<{type(self).__module__}.{type(self).__name__} {self.key!r}, fence {self.fence}, {state}>"
