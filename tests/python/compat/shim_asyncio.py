"""For redis-py's tests of its asyncio lock: that is dlock's, and GET and PTTL show it as a string."""

from __future__ import annotations

import os
from typing import Any

import pytest
import pytest_asyncio
import redis.asyncio
import redis.asyncio.lock
from redis.exceptions import ResponseError

import dlock.compat.asyncio

from .differs import mark

redis.asyncio.lock.Lock = dlock.compat.asyncio.Lock  # type: ignore[assignment, misc]


class Shown(redis.asyncio.Redis):
    """A client that sees a lock as redis-py's would be."""

    async def _holder(self, name: str, command: str) -> dict[str, Any]:
        words = ("DLOCK.TOKENS", name) if command == "token" else ("DLOCK.INSPECT", name)
        reply = await self.execute_command(*words)
        holders = _fields(reply)["holders"] if reply else []
        return _fields(holders[0]) if holders else {}

    async def get(self, name: str) -> Any:
        try:
            return await super().get(name)
        except ResponseError:
            return (await self._holder(name, "token")).get("token")

    async def pttl(self, name: str) -> Any:
        left = await super().pttl(name)
        if await self.type(name) in (b"dlock-key", "dlock-key"):
            lease = int((await self._holder(name, "ttl"))["ttl-ms"])
            return lease if left < 0 else min(left, lease)
        return left

    async def ttl(self, name: str) -> Any:
        left = await self.pttl(name)
        return left if left < 0 else -(-left // 1000)


def _fields(reply: list[Any]) -> dict[str, Any]:
    names = (name.decode() if isinstance(name, bytes) else name for name in reply[::2])
    return dict(zip(names, reply[1::2]))


@pytest_asyncio.fixture
async def create_redis() -> Any:
    made = []

    async def create(**options: Any) -> Shown:
        made.append(Shown(port=int(os.environ["PORT"]), protocol=2, **options))
        await made[-1].delete("foo")
        return made[-1]

    yield create
    for client in made:
        await client.delete("foo")
        await client.aclose()


@pytest_asyncio.fixture
async def r(create_redis: Any) -> Any:
    return await create_redis()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)
