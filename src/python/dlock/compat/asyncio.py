"""As ``dlock.compat``, with the constructor and the methods of ``redis.asyncio.lock.Lock``."""

from __future__ import annotations

from types import TracebackType
from typing import cast

from redis.exceptions import LockError

from .. import _native
from .._errors import Held
from .._options import logger
from ..asyncio import _mail
from ._common import NOT_IN_TIME, RELEASED, BaseLock, Lease, Number

__all__ = ["Lock"]


class Lock(BaseLock):
    """As ``redis.asyncio.lock.Lock``."""

    async def __aenter__(self) -> Lock:
        if await self.acquire():
            return self
        raise LockError(NOT_IN_TIME, lock_name=self._shown())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            logger.warning("Lock was unlocked or no longer owned when exiting context manager.")

    async def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: Number | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquires the lock; False if it is not free in time."""
        wait = self._wait(blocking, blocking_timeout, token)
        with self._as_redis():
            try:
                self._take(await self._acquire(wait))
            except Held:
                return False
        return True

    async def _acquire(self, wait: Number | None) -> _native.Guard | _native.Lease:
        lock = self._wanted()
        begin = lock.acquire_later if self._is_renewed() else lock.lease_later
        outcome = await _mail().outcome(begin, wait)
        return cast("_native.Guard | _native.Lease", outcome)

    async def locked(self) -> bool:
        """Whether anybody holds it."""
        return (await self._holders())[0]

    async def owned(self) -> bool:
        """Whether this lock holds it, as the server knows it."""
        return self._fence() in (await self._holders())[1]

    async def _holders(self) -> tuple[bool, list[int]]:
        with self._as_redis():
            outcome = await _mail().outcome(self._client.holders_later, self._key)
        return cast("tuple[bool, list[int]]", outcome)

    async def release(self) -> None:
        """Releases it."""
        lease = self._lease(RELEASED)
        self.local.token = None
        with self._as_redis("release"):
            if lease.guard is not None:
                await _mail().outcome(lease.guard.release_later)
            elif not await _mail().outcome(self._client.release_later, self._key, lease.token):
                raise self._not_owned("release")

    async def extend(self, additional_time: Number, replace_ttl: bool = False) -> bool:
        """Adds time to what is left, or replaces that."""
        lease, _ = self._lease_with_timeout("extend")
        ttl = additional_time + (0 if replace_ttl else lease.left())
        return await self._extend(lease, ttl, "extend")

    async def reacquire(self) -> bool:
        """Begins its time-out anew."""
        lease, timeout = self._lease_with_timeout("reacquire")
        return await self._extend(lease, timeout, "reacquire")

    async def _extend(self, lease: Lease, ttl: Number, what: str) -> bool:
        with self._as_redis(what):
            how = (self._key, lease.token, lease.fence, ttl)
            valid_for = await _mail().outcome(self._client.extend_later, *how)
        lease.last(cast(float, valid_for))
        return True
