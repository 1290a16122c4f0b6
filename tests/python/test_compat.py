"""`dlock.compat`: redis-py's own tests of its locks, and what they do not test."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from redis.credentials import UsernamePasswordCredentialProvider
from redis.exceptions import LockError, LockNotOwnedError, ResponseError

import dlock
import dlock._native
import dlock.compat
import dlock.compat._common
import dlock.compat.asyncio
from server import LEASE, TOP, Server

HERE = Path(__file__).parent


@pytest.mark.every_server
@pytest.mark.parametrize(
    ("tests", "shim"),
    [("tests/test_lock.py", "shim.py"), ("tests/test_asyncio/test_lock.py", "shim_asyncio.py")],
)
def test_the_tests_of_redis_py_pass(server: Server, tmp_path: Path, tests: str, shim: str) -> None:
    source = TOP / ".python" / "redis-py" / tests
    assert source.is_file(), f"{source} is missing: run `make setup`"
    package = tmp_path / "upstream"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(source, package / "test_lock.py")
    shutil.copy(HERE / "compat" / shim, package / "conftest.py")
    shutil.copy(HERE / "compat" / "differs.py", package / "differs.py")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_mode=auto",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
        "-W",
        "error::ResourceWarning",
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", str(package)],
        capture_output=True,
        text=True,
        env={**os.environ, "PORT": str(server.port)},
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "passed" in ran.stdout


def test_a_lock_without_a_timeout_is_renewed_and_one_with_it_is_not(
    server: Server, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dlock._native, "Lock", functools.partial(dlock._native.Lock, ttl=LEASE))
    with server.redis() as client:
        renewed = dlock.compat.Lock(client, f"{key}:renewed")
        # As for redis-py, 0 is no time-out.
        zero = dlock.compat.Lock(client, f"{key}:zero", timeout=0)
        ending = dlock.compat.Lock(client, f"{key}:ending", timeout=LEASE + 0.5)
        assert renewed.acquire()
        assert zero.acquire()
        assert ending.acquire()
        server.until_free(f"{key}:ending")
        assert not ending.owned()
        with pytest.raises(LockNotOwnedError):
            ending.release()
        assert renewed.owned()
        assert zero.owned()
        renewed.release()
        zero.release()


def test_a_lock_that_is_renewed_and_collected_is_released_and_warns(server: Server, key: str) -> None:
    with server.redis() as client:
        lock = dlock.compat.Lock(client, key)
        assert lock.acquire()
        with pytest.warns(ResourceWarning, match=key):
            del lock
            gc.collect()
        server.until_free(key)


def left(server: Server, key: str) -> float:
    """The seconds for which the server still keeps the lock."""
    inspection = server.inspect(key)
    assert inspection is not None
    holders = inspection[b"holders"]
    assert isinstance(holders, list)
    return float(dict(zip(holders[0][::2], holders[0][1::2]))[b"ttl-ms"]) / 1000


def test_what_is_added_to_a_lease_is_added_to_what_the_server_has(server: Server, key: str) -> None:
    with server.redis(socket_timeout=60) as client:
        lock = dlock.compat.Lock(client, key, timeout=60)
        begun = time.monotonic()
        assert lock.acquire()
        for _ in range(400):
            assert lock.extend(1)
        # Each has milliseconds, and may lose one.
        assert 460 - (time.monotonic() - begun) - 0.9 <= left(server, key) <= 460
        assert lock.extend(7, replace_ttl=True)
        assert left(server, key) <= 7
        assert lock.reacquire()
        assert 7 < left(server, key) <= 60
        with pytest.raises(ResponseError, match="ttl-ms"):
            lock.extend(10**9)
        lock.release()
        with pytest.raises(LockError, match="Cannot extend an unlocked lock"):
            lock.extend(1)


def test_an_asyncio_lock_adds_to_what_the_server_has(server: Server, key: str) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=server.port, socket_timeout=60) as client:
            lock = dlock.compat.asyncio.Lock(client, key, timeout=60)
            begun = time.monotonic()
            assert await lock.acquire()
            for _ in range(100):
                assert await lock.extend(1)
            assert 160 - (time.monotonic() - begun) - 0.3 <= left(server, key) <= 160
            assert await lock.owned()
            await lock.release()
            assert not await lock.owned()

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [60, None])
def test_a_token_that_is_passed_on_owns_extends_and_releases_elsewhere(
    server: Server, key: str, timeout: int | None
) -> None:
    with server.redis(socket_timeout=60) as client:
        first = dlock.compat.Lock(client, key, timeout=timeout)
        other = dlock.compat.Lock(client, key, timeout=60)
        assert first.acquire()
        assert not other.owned()
        other.local.token = first.local.token
        assert other.owned()
        assert other.extend(60)
        other.release()
        assert server.is_free(key)
        other.local.token = first.local.token.decode()
        assert not other.owned()
        for refused in (lambda: other.extend(1), other.reacquire, other.release):
            with pytest.raises(LockNotOwnedError):
                refused()
        with pytest.raises(LockNotOwnedError):
            first.release()


def test_a_token_of_redis_pys_lock_extends_and_releases_it(server: Server, key: str) -> None:
    with server.redis(socket_timeout=60) as client:
        old, new = client.lock(key, timeout=60), dlock.compat.Lock(client, key, timeout=60)
        assert old.acquire()
        new.local.token = old.local.token
        assert new.extend(60)
        assert 110 < client.ttl(key) <= 120
        new.release()
        assert not old.owned()


def test_a_lease_that_is_too_short_is_the_shortest(server: Server, key: str) -> None:
    with server.redis() as client:
        lock = dlock.compat.Lock(client, key, timeout=0.001)
        assert lock.acquire()
        server.until_free(key)


def test_an_old_redis_py_is_refused_by_name() -> None:
    text = """
import redis.exceptions
class LockError(Exception):
    def __init__(self, text=""): pass
redis.exceptions.LockError = LockError
redis.__version__ = "4.6.0"
import dlock.compat
"""
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert "dlock.compat needs redis-py 5.0 or later, and this is 4.6.0" in ran.stderr


@pytest.mark.every_server
def test_both_kinds_of_locks_exclude_each_other(server: Server, key: str) -> None:
    with server.redis(encoding="latin-1") as client:
        names: list[Any] = [key, f"{key}:é", memoryview(key.encode()), 42, 0.5]
        for name in names:
            old, new = client.lock(name, timeout=60), dlock.compat.Lock(client, name, timeout=60)
            with old:
                assert new.locked()
                assert not new.acquire(blocking=False)
            with new:
                assert not old.acquire(blocking=False)


def test_a_server_that_answers_late_is_asked_once_in_any_case(server: Server, key: str) -> None:
    with server.redis(socket_timeout=60) as client:
        lock = dlock.compat.Lock(client, key, timeout=60)
        assert not lock.locked()
        timer = threading.Timer(0.5, server.resume)
        server.pause()
        timer.start()
        assert lock.acquire(blocking_timeout=0.05)
        lock.release()
        timer.join()


def test_a_token_of_ones_own_is_refused(server: Server, key: str) -> None:
    with server.redis() as client, pytest.raises(LockError, match="makes its tokens itself"):
        dlock.compat.Lock(client, key).acquire(token="mine")


def test_clients_with_one_pool_share_their_connections(server: Server) -> None:
    with server.redis() as client:
        clients = {id(dlock.compat.Lock(client, name)._client) for name in "abc"}
    assert len(clients) == 1


def test_an_asyncio_wait_that_is_cancelled_leaves_nothing(server: Server, key: str) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=server.port) as client:
            for step in range(200):
                lock = dlock.compat.asyncio.Lock(client, key, timeout=600)
                task = asyncio.create_task(lock.acquire())
                for _ in range(step % 20):
                    await asyncio.sleep(0)
                await asyncio.sleep((step % 10) * 0.0001)
                task.cancel()
                try:
                    assert await task
                    await lock.release()
                except asyncio.CancelledError:
                    pass

    asyncio.run(main())
    server.until_free(key)


@pytest.mark.parametrize("timeout", [600, None])
def test_a_release_that_no_server_carries_out_can_be_tried_again(
    own_servers: Callable[..., Server], timeout: int | None
) -> None:
    server = own_servers("redis-8.2")
    with server.redis(socket_timeout=0.5) as client:
        lock = dlock.compat.Lock(client, "key", timeout=timeout)
        assert lock.acquire()
        server.run("CONFIG", "SET", "min-replicas-to-write", 1)
        for _ in range(2):
            with pytest.raises(redis.ConnectionError):
                lock.release()
        server.run("CONFIG", "SET", "min-replicas-to-write", 0)
        if timeout is None:
            # It is asked again in the background, and the program may try again after that.
            server.until_free("key")
        lock.release()
        with pytest.raises(LockError, match="already unlocked"):
            lock.release()
    assert server.is_free("key")


@pytest.mark.parametrize("timeout", [600, None])
def test_an_asyncio_release_that_no_server_carries_out_can_be_tried_again(
    own_servers: Callable[..., Server], timeout: int | None
) -> None:
    server = own_servers("redis-8.2")

    async def main() -> None:
        async with redis.asyncio.Redis(port=server.port, socket_timeout=0.5) as client:
            lock = dlock.compat.asyncio.Lock(client, "key", timeout=timeout)
            assert await lock.acquire()
            server.run("CONFIG", "SET", "min-replicas-to-write", 1)
            with pytest.raises(redis.ConnectionError):
                await lock.release()
            server.run("CONFIG", "SET", "min-replicas-to-write", 0)
            await lock.release()

    asyncio.run(main())
    assert server.is_free("key")


@pytest.mark.parametrize("timeout", [600, None])
def test_an_asyncio_release_that_is_cancelled_at_any_moment_releases(
    server: Server, key: str, timeout: int | None
) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=server.port, socket_timeout=60) as client:
            for step in range(100):
                lock = dlock.compat.asyncio.Lock(client, f"{key}:{step}", timeout=timeout)
                assert await lock.acquire()
                task = asyncio.create_task(lock.release())
                for _ in range(step % 10):
                    await asyncio.sleep((step // 10) * 0.00005)
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    # As with redis-py: who still has the token releases again.
                    if lock.local.token is not None:
                        await lock.release()

    asyncio.run(main())
    for step in range(100):
        server.until_free(f"{key}:{step}")


def test_an_extension_that_is_cancelled_at_any_moment_gives_nothing_up(server: Server, key: str) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=server.port, socket_timeout=60) as client:
            for step in range(100):
                lock = dlock.compat.asyncio.Lock(client, f"{key}:{step}", timeout=600)
                assert await lock.acquire()
                task = asyncio.create_task(lock.extend(10))
                for _ in range(step % 10):
                    await asyncio.sleep((step // 10) * 0.00005)
                task.cancel()
                await asyncio.wait([task])
            # This waits for releases in the background.
            lock._client.close(None)

    asyncio.run(main())
    assert all(not server.is_free(f"{key}:{step}") for step in range(100))


def test_a_wait_goes_on_through_an_outage() -> None:
    lock = dlock.compat.Lock(redis.Redis(port=1), "key", timeout=10)
    begun = time.monotonic()
    with pytest.raises(redis.ConnectionError):
        lock.acquire(blocking_timeout=0.5)
    assert time.monotonic() - begun >= 0.5


def address(client: object) -> str:
    return dlock.compat._common.address(client.connection_pool)  # type: ignore[attr-defined]


def test_addresses_are_derived_from_the_pool() -> None:
    login = UsernamePasswordCredentialProvider("me", "s3cret")
    for client, expected in [
        (redis.Redis(), "redis://localhost:6379/0"),
        (redis.Redis("10.0.0.1", 7000, 3), "redis://10.0.0.1:7000/3"),
        (redis.Redis("::1", password="p@ss,w"), "redis://:p%40ss%2Cw@[::1]:6379/0"),
        (redis.Redis(username="me", password="x"), "redis://me:x@localhost:6379/0"),
        (redis.Redis(credential_provider=login), "redis://me:s3cret@localhost:6379/0"),
        (
            redis.Redis(unix_socket_path="/run/redis.sock", db=1, password="x"),
            "unix:///run/redis.sock?pass=x&db=1",
        ),
        (
            redis.Redis(ssl=True, ssl_ca_certs="/etc/ca.pem"),
            "rediss://localhost:6379/0?ca=%2Fetc%2Fca.pem",
        ),
        (redis.Redis.from_url("redis://me:x@host/2"), "redis://me:x@host:6379/2"),
        (redis.asyncio.Redis(port=7000), "redis://localhost:7000/0"),
    ]:
        assert address(client) == expected


def test_what_cannot_be_derived_is_refused_in_words() -> None:
    with pytest.raises(dlock.UsageError, match="always checks certificates"):
        address(redis.Redis(ssl=True, ssl_cert_reqs="none"))
    sentinel: Any = redis.sentinel.Sentinel([("localhost", 1)])  # type: ignore[no-untyped-call]
    sentinel = sentinel.master_for("main")
    with pytest.raises(dlock.UsageError, match="a client of one server"):
        dlock.compat.Lock(sentinel, "key")
