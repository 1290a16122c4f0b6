"""Moving over in one line: a ``Lock`` with the constructor and the methods of redis-py's.

::

    from dlock.compat import Lock

    lock = Lock(redis.Redis(), "job:42", timeout=30)

It derives address, TLS and login from the pool of the redis-py client. A lock with ``timeout=N`` is never
renewed, one without a time-out as long as the process lives. Waiters queue in the server, so ``sleep``
means nothing. ``token`` cannot be chosen. For asyncio: ``dlock.compat.asyncio``.
"""

from __future__ import annotations

from types import TracebackType

from redis.exceptions import LockError

from .. import _green, _native
from .._errors import Held
from .._options import logger
from ._common import NOT_IN_TIME, RELEASED, BaseLock, Lease, Number

__all__ = ["Lock"]


class Lock(BaseLock):
    """As ``redis.lock.Lock``."""

    def __enter__(self) -> Lock:
        if self.acquire():
            return self
        raise LockError(NOT_IN_TIME, lock_name=self._shown())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            logger.warning("Lock was unlocked or no longer owned when exiting context manager.")

    def acquire(
        self,
        sleep: Number | None = None,
        blocking: bool | None = None,
        blocking_timeout: Number | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquires the lock; False if it is not free in time."""
        wait = self._wait(blocking, blocking_timeout, token)
        with self._as_redis():
            try:
                self._take(self._acquire(wait))
            except Held:
                return False
        return True

    def _acquire(self, wait: Number | None) -> _native.Guard | _native.Lease:
        lock = self._wanted()
        if self._is_renewed():
            return _green.call(lock.acquire, lock.acquire_later, wait)
        return _green.call(lock.lease, lock.lease_later, wait)

    def locked(self) -> bool:
        """Whether anybody holds it."""
        with self._as_redis():
            return self._holders()[0]

    def owned(self) -> bool:
        """Whether this thread holds it, as the server knows it."""
        with self._as_redis():
            return self._fence() in self._holders()[1]

    def _holders(self) -> tuple[bool, list[int]]:
        return _green.call(self._client.holders, self._client.holders_later, self._key)

    def release(self) -> None:
        """Releases it."""
        lease = self._lease(RELEASED)
        self.local.token = None
        with self._as_redis("release"):
            if lease.guard is not None:
                _green.call(lease.guard.release, lease.guard.release_later)
            elif not _green.call(self._client.release, self._client.release_later, self._key, lease.token):
                raise self._not_owned("release")

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> bool:
        """Adds time to what is left, or replaces that."""
        lease, _ = self._lease_with_timeout("extend")
        return self._extend(lease, additional_time + (0 if replace_ttl else lease.left()), "extend")

    def reacquire(self) -> bool:
        """Begins its time-out anew."""
        lease, timeout = self._lease_with_timeout("reacquire")
        return self._extend(lease, timeout, "reacquire")

    def _extend(self, lease: Lease, ttl: Number, what: str) -> bool:
        with self._as_redis(what):
            how = (self._key, lease.token, lease.fence, ttl)
            lease.last(_green.call(self._client.extend, self._client.extend_later, *how))
        return True
