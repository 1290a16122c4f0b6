"""Like ``dlock.compat``, with the constructor and the methods of ``redis.asyncio.lock.Lock``."""

from __future__ import annotations

from types import TracebackType
from typing import cast

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import LockError

from .._errors import DoneError, HeldError
from .._options import logger
from ..asyncio import _run
from ._common import NOT_IN_TIME, NOT_RELEASED, RELEASED, BaseLock, Number

__all__ = ["Lock"]


class Lock(BaseLock):
    """Like ``redis.asyncio.lock.Lock``."""

    async def __aenter__(self) -> Lock:
        if await self.acquire():
            return self
        raise LockError(NOT_IN_TIME, lock_name=self._shown)

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
        """Acquires the lock. Returns False if it is not free in time."""
        wait = self._wait(blocking, blocking_timeout, token)
        with self._as_redis():
            try:
                self._take(await _run(self._wanted().acquire, wait))
            except (HeldError, DoneError):
                return False
        return True

    async def locked(self) -> bool:
        """True if anybody holds the lock."""
        with self._as_redis():
            return cast(bool, await _run(self._client.is_held, self._key))

    async def owned(self) -> bool:
        """True if this lock holds it, as the server knows."""
        token = self._token()
        if token is None:
            return False
        with self._as_redis():
            return cast(bool, await _run(self._client.owns, self._key, token))

    async def release(self) -> None:
        """Releases the lock."""
        token = self._need_token(RELEASED)
        guard = self._guard(token)
        again = self._is_tried_again(guard)
        with self._releasing(token):
            if guard is not None and guard.is_renewed() and not again:
                if not await _run(guard.release):
                    raise RedisConnectionError(NOT_RELEASED)
                return
            # From here on only the server knows the end of the lease.
            if guard is not None and guard.is_open():
                (await _run(guard.detach)).take()
            if not await _run(self._client.release, self._key, token) and not again:
                raise self._not_owned("release")

    async def extend(self, additional_time: Number, replace_ttl: bool = False) -> bool:
        """Adds time to the rest of the lease, or replaces it."""
        token, _ = self._need_timeout("extend")
        return await self._extend(token, additional_time, replace_ttl, "extend")

    async def reacquire(self) -> bool:
        """Sets the lease to the full time-out again."""
        token, timeout = self._need_timeout("reacquire")
        return await self._extend(token, timeout, True, "reacquire")

    async def _extend(self, token: str, time: Number, from_now: bool, what: str) -> bool:
        with self._as_redis(what):
            guard = self._guard(token)
            if guard is not None and guard.is_open():
                await _run(guard.let_go)
            if not await _run(self._client.lengthen, self._key, token, time, from_now):
                raise self._not_owned(what)
        return True
