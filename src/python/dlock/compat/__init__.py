"""Moving over in one line: a ``Lock`` with the constructor and the methods of redis-py's.

::

    from dlock.compat import Lock

    lock = Lock(redis.Redis(), "job:42", timeout=30)

dlock takes address, TLS and login from the pool of the redis-py client. A lock with ``timeout=N`` is never
renewed; one without a time-out is renewed while the process lives. Waiters queue in the server, so ``sleep``
has no effect. ``token`` cannot be chosen. For asyncio: ``dlock.compat.asyncio``.
"""

from __future__ import annotations

from typing import cast

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import LockError

from .. import _green, _native
from .._errors import DoneError, HeldError
from .._options import logger
from ._common import NOT_IN_TIME, NOT_RELEASED, RELEASED, BaseLock, Number

__all__ = ["Lock"]


class Lock(BaseLock, _native.CompatLockBase):
    """Like ``redis.lock.Lock``."""

    def _enter(self) -> Lock:
        if self.acquire():
            return self
        raise LockError(NOT_IN_TIME, lock_name=self._shown)

    def _exit(self) -> None:
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
        """Acquires the lock. Returns False if it is not free in time."""
        wait = self._wait(blocking, blocking_timeout, token)
        with self._as_redis():
            try:
                self._take(_green.call(self._wanted().acquire, wait))
            except (HeldError, DoneError):
                return False
        return True

    def locked(self) -> bool:
        """True if anybody holds the lock."""
        with self._as_redis():
            return cast(bool, _green.call(self._client.is_held, self._key))

    def owned(self) -> bool:
        """True if this thread holds it, as the server knows."""
        token = self._token()
        if token is None:
            return False
        with self._as_redis():
            return cast(bool, _green.call(self._client.owns, self._key, token))

    def _release(self) -> None:
        token = self._need_token(RELEASED)
        guard = self._guard(token)
        again = self._is_tried_again(guard)
        with self._releasing(token):
            if guard is not None and guard.is_renewed() and not again:
                if not _green.call(guard.release):
                    raise RedisConnectionError(NOT_RELEASED)
                return
            # From here on only the server knows the end of the lease.
            if guard is not None and guard.is_open():
                _green.call(guard.detach).take()
            if not _green.call(self._client.release, self._key, token) and not again:
                raise self._not_owned("release")

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> bool:
        """Adds time to the rest of the lease, or replaces it."""
        token, _ = self._need_timeout("extend")
        return self._extend(token, additional_time, replace_ttl, "extend")

    def reacquire(self) -> bool:
        """Sets the lease to the full time-out again."""
        token, timeout = self._need_timeout("reacquire")
        return self._extend(token, timeout, True, "reacquire")

    def _extend(self, token: str, time: Number, from_now: bool, what: str) -> bool:
        with self._as_redis(what):
            guard = self._guard(token)
            if guard is not None and guard.is_open():
                _green.call(guard.let_go)
            if not _green.call(self._client.lengthen, self._key, token, time, from_now):
                raise self._not_owned(what)
        return True
