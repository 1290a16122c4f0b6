"""Detached, inspected and broken locks; hooks; nodes of the environment: with threads and asyncio."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import dlock
import dlock.asyncio
from conftest import Program
from dlock import _hooks
from server import LEASE, PATIENCE, Server, eventually

TOKEN = "0123456789abcdef0123456789abcdef"


def test_a_guard_that_is_detached_is_extended_and_released_by_its_token(
    server: Server, client: dlock.Client, key: str
) -> None:
    guard = client.lock(key, ttl=20).acquire()
    token = guard.token
    lease = guard.detach()
    assert (lease.key, lease.token, lease.fence) == (key, token, guard.fence)
    assert 0 < lease.valid_for <= 20
    assert not guard.is_valid
    with pytest.raises(dlock.LostError, match="its guard was detached") as lost:
        guard.release()
    assert lost.value.why == "detached"
    del guard
    gc.collect()
    longer = client.extend(key, token, 600, fence=lease.fence)
    assert longer[:3] == lease[:3]
    assert 20 < longer.valid_for <= 600
    assert client.release(key, TOKEN) is False
    assert client.release(key, token) is True
    assert server.is_free(key)


def test_a_lost_lock_is_not_handed_on(server: Server, client: dlock.Client, key: str) -> None:
    guard = client.lock(key, ttl=20).acquire()
    server.run("DLOCK.BREAK", key)
    with pytest.raises(dlock.LostError) as lost:
        guard.extend(20)
    assert lost.value.why == "ended"
    with pytest.raises(dlock.LostError) as again:
        guard.detach()
    assert again.value.why == "ended"
    with pytest.raises(dlock.LostError) as told:
        guard.check()
    assert told.value.why == "ended"


def test_a_block_of_a_guard_that_is_detached_ends_in_silence(
    server: Server, client: dlock.Client, key: str
) -> None:
    with client.lock(key) as guard:
        lease = guard.detach()
    assert not server.is_free(key)

    async def main() -> None:
        other = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        async with other.lock(f"{key}:2") as guard:
            await guard.detach()
        assert await other.release(key, lease.token)

    asyncio.run(main())
    assert server.is_free(key)
    assert not server.is_free(f"{key}:2")


def test_a_lock_is_inspected_with_its_holder_and_waiter(server: Server, client: dlock.Client, key: str) -> None:
    assert client.inspect(key) == (dlock.NodeInspection(server.url, None, None),)
    with client.lock(key, meta="the first") as guard:
        waiting = threading.Thread(target=lambda: client.lock(key, meta="the second").acquire().release())
        waiting.start()
        server.until_waiting(key, 1)
        [(node, lock, error)] = client.inspect(key)
        assert lock is not None
        assert (node, error) == (server.url, None)
        assert (lock.mode, lock.limit, lock.holding, lock.waiting) == ("exclusive", 0, 1, 1)
        [holder], [waiter] = lock.holders, lock.waiters
        assert (holder.fence, holder.meta, holder.ephemeral) == (guard.fence, "the first", False)
        assert 0 < holder.ttl <= 30
        assert holder.id not in ("", guard.token)
        assert (waiter.mode, waiter.meta, waiter.away) == ("exclusive", "the second", False)
    waiting.join()
    server.run("SET", key, "of another kind", "PX", 60_000)
    lock = client.inspect(key)[0].lock
    assert lock is not None
    assert (lock.mode, lock.holders) == ("foreign", ())
    assert 0 < (lock.expires or 0) <= 60
    server.run("DEL", key)
    away = dlock.Client("redis://127.0.0.1:1").inspect(key)[0]
    assert away.lock is None
    assert away.error is not None
    assert away.error.state == "unreachable"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda client: client.extend("k", "mine", 5, fence=7), dlock.UsageError, "a token is 32 hex digits"),
        (lambda client: client.extend("k", b"mine", 5, fence=7), TypeError, "token is a str, not bytes"),
        (lambda client: client.extend("k", TOKEN, -1, fence=7), dlock.UsageError, "ttl cannot be -1 seconds"),
        (lambda client: client.extend("k", TOKEN, 0, fence=7), dlock.UsageError, "between 10 ms and 49 days"),
        (lambda client: client.extend("k", TOKEN, None, fence=7), TypeError, "ttl is in seconds"),
        (lambda client: client.extend("k", TOKEN, 5, fence=1.5), TypeError, "a fence is a whole number"),
        (lambda client: client.extend("k", TOKEN, 5, fence=-1), dlock.UsageError, "a fence is a number from 0"),
        (lambda client: client.extend("", TOKEN, 5, fence=7), dlock.UsageError, "the key is empty"),
        (lambda client: client.release(5, TOKEN), TypeError, "a key is str or bytes, not int"),
        (lambda client: client.release("", TOKEN), dlock.UsageError, "the key is empty"),
        (lambda client: client.inspect(""), dlock.UsageError, "the key is empty"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=re.escape(words)):
        call(dlock.Client("redis://127.0.0.1:1"))
    with pytest.raises(error, match=re.escape(words)):
        asyncio.run(call(dlock.asyncio.Client("redis://127.0.0.1:1")))


def test_acquire_replaces_the_wait_of_the_lock(server: Server, client: dlock.Client, key: str) -> None:
    lock = client.lock(key, wait=0)
    guard = lock.acquire()
    with pytest.raises(dlock.HeldError):
        lock.acquire()
    with pytest.raises((dlock.HeldError, dlock.NoQuorumError)):
        client.lock(key).acquire(wait=0.05)
    thread = threading.Thread(target=lambda: lock.acquire(wait=None).release())
    thread.start()
    server.until_waiting(key, 1)
    guard.release()
    thread.join()
    for wait, error in ((-1, dlock.UsageError), ("5", TypeError)):
        with pytest.raises(error, match="wait "):
            lock.acquire(wait=wait)  # type: ignore[arg-type]

    async def main() -> None:
        other = dlock.asyncio.Client(server.url, node_timeout=PATIENCE).lock(key, wait=0)
        guard = await other.acquire()
        with pytest.raises(dlock.HeldError):
            await other.acquire()
        task = asyncio.create_task(other.acquire(wait=None))
        await asyncio.to_thread(server.until_waiting, key, 1)
        await guard.release()
        await (await task).release()
        with pytest.raises(dlock.UsageError, match="wait cannot be -1"):
            await other.acquire(wait=-1)

    asyncio.run(main())


def test_hooks_that_several_threads_set_are_all_called(server: Server, client: dlock.Client, key: str) -> None:
    guard = client.lock(key).acquire()
    heard: list[int] = []

    def sets(first: int) -> None:
        for number in range(first, first + 50):
            guard.on_lost(lambda _, number=number: heard.append(number))  # type: ignore[misc]

    threads = [threading.Thread(target=sets, args=(first,)) for first in range(0, 200, 50)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    server.run("DLOCK.BREAK", key)
    with pytest.raises(dlock.LostError):
        guard.extend(60)
    eventually("all are called", lambda: sorted(heard) == list(range(200)))


def test_a_handler_of_the_log_that_hangs_or_fails_keeps_no_hook_back(
    server: Server, key: str, program: Callable[..., Program]
) -> None:
    text = """
import logging, sys, threading, dlock
from server import eventually
url, key = sys.argv[1:]
hangs, called = threading.Event(), []
class Handler(logging.Handler):
    def emit(self, record):
        called.append(record)
        if len(called) < 3:
            raise ConnectionError("away")
        hangs.wait()
logging.getLogger("dlock").addHandler(Handler())
client = dlock.Client(url)
guard = client.lock(key, ttl=3).acquire()
lost = threading.Event()
guard.on_lost(lambda loss: lost.set())
# A guard that is collected is logged. The first line fails, and so does the report of that; the second hangs.
for lines in (2, 3):
    client.lock(f"{key}:{lines}").acquire()
    eventually("it is logged", lambda: len(called) == lines)
sys.stdin.readline()
assert lost.wait(60)
hangs.set()
print("told")
"""
    running = program(text, server.url, key)
    eventually("it is held", lambda: server.holders(key) == 1)
    server.run("DLOCK.BREAK", key)
    running.tell()
    assert running.line() == "told"
    running.end()


class Heard:
    """The events that a hook was called with."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, told: object) -> None:
        self.all.append(told)

    def __len__(self) -> int:
        return len(self.all)


def test_a_hook_is_called_after_a_loss_only(server: Server, client: dlock.Client, key: str) -> None:
    lost, broken, kept = Heard(), Heard(), Heard()

    def fails(_: object) -> None:
        raise KeyError("mine")

    guard = client.lock(key, ttl=LEASE).acquire()
    guard.on_lost(fails)
    guard.on_lost(lost)
    threads: list[str] = []
    guard.on_lost(lambda _: threads.append(threading.current_thread().name))
    for end in ("release", "detach"):
        with client.lock(f"{key}:{end}") as other:
            other.on_lost(kept)
            getattr(other, end)()
    server.run("DLOCK.BREAK", key)
    # Hooks are called in any order.
    eventually("they are told", lambda: threads and lost)
    assert threads == ["dlock-hooks"]
    [loss] = lost.all
    assert isinstance(loss, dlock.LostError)
    assert (loss.key, loss.why, loss.fence) == (key, "ended", guard.fence)
    guard.on_lost(broken)
    eventually("it is told at once", lambda: broken)
    with pytest.raises(dlock.LostError):
        guard.release()
    with pytest.raises(dlock.LostError, match="it was released"):
        guard.on_lost(kept)
    with pytest.raises(TypeError, match="a hook is a function, not int"):
        client.lock(key).acquire().on_lost(5)  # type: ignore[arg-type]
    assert len(kept) == 0


@pytest.mark.parametrize(
    ("error", "told"), [(KeyError("mine"), "KeyError: 'mine'"), (SystemExit(1), "SystemExit: 1")]
)
def test_a_hook_that_fails_is_logged_and_the_others_are_called(
    client: dlock.Client, key: str, caplog: pytest.LogCaptureFixture, error: BaseException, told: str
) -> None:
    def fails(_: object) -> None:
        raise error

    heard = Heard()
    with pytest.raises(dlock.LostError), client.lock(key, max_hold=0.05) as guard:
        guard.on_lost(fails)
        eventually("it is told", lambda: told in caplog.text)
        guard.on_lost(heard)
        eventually("the next one is called", lambda: heard)


def test_a_guard_is_collected_though_its_hook_refers_to_it(
    server: Server, client: dlock.Client, key: str
) -> None:
    guards = [client.lock(key).acquire()]
    guards[0].on_lost(lambda _, guard=guards[0]: guard)  # type: ignore[misc]
    guards.clear()
    gc.collect()
    server.until_free(key)


def test_hooks_behind_a_running_one_are_called_at_the_end_of_the_program(
    server: Server, key: str, program: Callable[..., Program]
) -> None:
    text = """
import atexit, sys, threading, time
import dlock
url, key = sys.argv[1:]
client = dlock.Client(url, node_timeout=60)
began, ends = threading.Event(), threading.Event()
def slow(_):
    began.set()
    ends.wait()
    time.sleep(0.1)
first = client.lock(key + ":1", max_hold=0.05).acquire()
first.on_lost(slow)
began.wait()
second = client.lock(key + ":2", max_hold=0.05).acquire()
second.on_lost(lambda _: print("called"))
while second.is_valid:
    time.sleep(0.01)
time.sleep(0.1)
atexit.register(ends.set)
"""
    run = program(text, server.url, key)
    assert run.line() == "called"
    run.end()


def test_a_client_that_cannot_be_made_leaves_nothing() -> None:
    before = set(_hooks._functions)
    with pytest.raises(TypeError):
        dlock.Client(5, notify=print)  # type: ignore[arg-type]
    with pytest.raises(dlock.UsageError):
        dlock.Client("http://host", notify=print)
    assert set(_hooks._functions) <= before


def test_notices_beyond_a_limit_are_lost(
    own_servers: Callable[..., Server], key: str, program: Callable[..., Program]
) -> None:
    server = own_servers()
    text = """
import logging, sys, threading
import dlock
url, key = sys.argv[1:]
logging.getLogger("dlock").setLevel(logging.CRITICAL)
began, goes_on, end = threading.Event(), threading.Event(), threading.Event()
count = 0
def told(_):
    global count
    count += 1
    began.set()
    goes_on.wait()
client = dlock.Client(url, node_timeout=60, notify=told)
guards = [client.lock(f"{key}:{number}", ttl=9).acquire() for number in range(1400)]
print("held")
sys.stdin.readline()
guards.pop()
began.wait()
guards.clear()
client.close()
print("released")
sys.stdin.readline()
last = client.lock(key, max_hold=0.05).acquire()
last.on_lost(lambda _: end.set())
goes_on.set()
end.wait()
print(count)
"""
    run = program(text, server.url, key)
    assert run.line() == "held"
    server.run("CONFIG", "SET", "min-replicas-to-write", 1)
    run.tell()
    assert run.line() == "released"
    server.run("CONFIG", "SET", "min-replicas-to-write", 0)
    run.tell()
    assert 0 < int(run.line()) < 1400
    run.end()


def test_hooks_work_in_a_child_and_those_of_the_parent_stay_there(
    server: Server, key: str, program: Callable[..., Program]
) -> None:
    text = """
import os, sys, time
import dlock
from server import PATIENCE
url, key = sys.argv[1:]
def told(notice): print(os.getpid() == parent, "notice", notice.event)
client = dlock.Client(url, node_timeout=PATIENCE, notify=told)
def lose(name):
    guard = client.lock(key + name, max_hold=0.05).acquire()
    heard = []
    guard.on_lost(heard.append)
    while not heard:
        time.sleep(0.01)
    print(name, heard[0].why)
parent = os.getpid()
mine = client.lock(key, ttl=9).acquire()
mine.on_lost(lambda _: print("lost", os.getpid() == parent))
lose("parent")
child = os.fork()
if child == 0:
    try:
        mine.on_lost(print)
    except dlock.LostError as lost:
        print(lost.why)
    lose("child")
    sys.stdin.readline()
    os._exit(0)
os.waitpid(child, 0)
"""
    run = program(text, server.url, key)
    assert [run.line() for _ in range(3)] == ["parent max_hold", "forked", "child max_hold"]
    server.run("DLOCK.BREAK", key)
    assert run.line() == "lost True"
    run.tell()
    run.end()


def test_a_notice_tells_of_an_outage_and_its_end(own_servers: Callable[..., Server], key: str) -> None:
    server, told = own_servers(), Heard()
    client = dlock.Client(server.url, node_timeout=10, notify=told)
    # The quarantine after the crash is as long as the server's longest lease.
    with client.lock(key, ttl=LEASE):
        pass
    server.kill()
    thread = threading.Thread(target=lambda: client.lock(key, ttl=LEASE).acquire().release())
    thread.start()
    eventually("it is told", lambda: told)
    first = told.all[0]
    assert (first.event, first.key, first.needed) == ("outage", key, 1)
    assert first.message.startswith(f"waiting for lock '{key}'")
    assert [report.node for report in first.nodes] == [server.url]
    assert (first.node, first.left) == (None, None)
    server.start()
    thread.join()
    eventually("its end, too", lambda: any((each.event, each.key) == ("back", key) for each in told.all))
    with pytest.raises(TypeError, match="notify is a function, not int"):
        dlock.Client(server.url, notify=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [dlock.Client, dlock.asyncio.Client])
def test_a_client_is_collected_though_its_notify_refers_to_it(
    own_servers: Callable[..., Server], kind: Callable[..., Any]
) -> None:
    server = own_servers()

    class Worker:
        def __init__(self) -> None:
            self.client = kind(server.url, notify=self.told)
            self.lock = self.client.lock("key")

        def told(self, _: object) -> None: ...

    worker = Worker()
    opened = worker.client.inspect("key")
    if kind is dlock.asyncio.Client:
        asyncio.run(opened)
    with server.redis() as other:
        assert len(other.client_list()) > 1
        known = weakref.ref(worker)
        del worker, opened
        gc.collect()
        assert known() is None
        eventually("its connections end", lambda: len(other.client_list()) == 1)


@pytest.mark.parametrize("kind", [dlock.Client, dlock.asyncio.Client])
def test_notices_arrive_while_a_guard_is_all_that_is_left_of_a_client(
    own_servers: Callable[..., Server], kind: Callable[..., Any]
) -> None:
    server, told = own_servers(), Heard()

    async def main() -> None:
        def made() -> Any:
            return kind(server.url, node_timeout=PATIENCE, notify=told).lock("key").acquire()

        guard = await made() if kind is dlock.asyncio.Client else made()
        gc.collect()
        server.run("CONFIG", "SET", "min-replicas-to-write", 1)
        released = guard.release()
        if released is not None:
            await released
        eventually("it is told", lambda: told)
        assert told.all[0].event == "not_released"
        guard.fence  # noqa: B018

    asyncio.run(main())


def test_without_nodes_those_of_dlock_nodes_are_used(
    server: Server, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nodes in (None, "", " "):
        monkeypatch.setenv("DLOCK_NODES", nodes) if nodes is not None else monkeypatch.delenv(
            "DLOCK_NODES", raising=False
        )
        for kind in (dlock.Client, dlock.asyncio.Client):
            with pytest.raises(dlock.UsageError, match="DLOCK_NODES names none"):
                kind()
    monkeypatch.setenv("DLOCK_NODES", server.url.replace("redis://", ""))
    with dlock.Client(node_timeout=PATIENCE) as client, client.lock(key):
        assert client.nodes == [server.url]
        assert dlock.asyncio.Client().nodes == [server.url]
    with pytest.raises(dlock.UsageError, match="no node is given"):
        dlock.Client([])
    for empty in (f"{server.url},", [server.url, ""]):
        with pytest.raises(dlock.UsageError, match="an empty entry"):
            dlock.Client(empty)


def test_after_an_interrupt_while_a_guard_is_detached_its_token_releases_it(
    server: Server, key: str, program: Callable[..., Program]
) -> None:
    text = """
import signal, sys
import dlock
from server import PATIENCE
url, key = sys.argv[1:]
client = dlock.Client(url, node_timeout=PATIENCE)
class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
for n in range(200):
    guard = client.lock(f"{key}:{n}", ttl=600).acquire()
    token = guard.token
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, (n % 30 + 1) * 0.00005)
            guard.detach()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm:
        pass
    client.release(f"{key}:{n}", token)
    guard = None
client.close()
print("done")
"""
    run = program(text, server.url, key)
    assert run.line() == "done"
    run.end()
    assert all(server.is_free(f"{key}:{n}") for n in range(200))
