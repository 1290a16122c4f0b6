"""For redis-py's tests of its lock: that is dlock's, and GET and PTTL show it as if it were a string."""

from __future__ import annotations

import os
from typing import Any

import pytest
import redis
import redis.lock
from redis.exceptions import ResponseError

import dlock.compat

from .differs import mark

redis.lock.Lock = dlock.compat.Lock  # type: ignore[assignment, misc]


class Shown(redis.Redis):
    """A client that sees a lock as redis-py's would be."""

    def _holder(self, name: str, command: str) -> dict[str, Any]:
        words = ("DLOCK.TOKENS", name) if command == "token" else ("DLOCK.INSPECT", name)
        reply = self.execute_command(*words)
        holders = _fields(reply)["holders"] if reply else []
        return _fields(holders[0]) if holders else {}

    def get(self, name: str) -> Any:
        try:
            return super().get(name)
        except ResponseError:
            return self._holder(name, "token").get("token")

    def pttl(self, name: str) -> Any:
        left = super().pttl(name)
        if self.type(name) in (b"dlock-key", "dlock-key"):
            lease = int(self._holder(name, "ttl")["ttl-ms"])
            return lease if left < 0 else min(left, lease)
        return left

    def ttl(self, name: str) -> Any:
        left = self.pttl(name)
        return left if left < 0 else -(-left // 1000)


def _fields(reply: list[Any]) -> dict[str, Any]:
    names = (name.decode() if isinstance(name, bytes) else name for name in reply[::2])
    return dict(zip(names, reply[1::2]))


def _get_client(cls: object, request: object, **options: Any) -> Shown:
    return Shown(port=int(os.environ["PORT"]), protocol=2, **options)


@pytest.fixture
def r() -> Any:
    client = Shown(port=int(os.environ["PORT"]), protocol=2)
    client.delete("foo")
    yield client
    client.delete("foo")
    client.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)
