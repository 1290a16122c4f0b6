"""Locks for threads."""

from __future__ import annotations

import copy
import gc
import importlib.metadata
import logging
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any, get_type_hints

import pytest

import dlock
import dlock.asyncio
from server import Server, eventually


def test_a_lock_is_held_during_a_block(server: Server, client: dlock.Client, key: str) -> None:
    with client.lock(key) as guard:
        assert server.fence(key) == guard.fence
        assert guard.is_valid
        assert 0 < guard.valid_for <= 30
        assert guard.key == key
        guard.check()
    assert server.is_free(key)
    assert not guard.is_valid
    with pytest.raises(dlock.LostError) as lost:
        guard.check()
    assert (lost.value.why, lost.value.key, lost.value.fence) == ("released", key, guard.fence)


def test_a_lock_begins_one_block(server: Server, client: dlock.Client, key: str) -> None:
    lock = client.lock(key, wait=0)
    with client.lock(key), pytest.raises(dlock.HeldError), lock:
        pytest.fail("it is held")
    with lock:
        assert not server.is_free(key)
    assert server.is_free(key)
    with pytest.raises(dlock.UsageError, match="acquire"), lock:
        pytest.fail("a second block begins")
    with lock.acquire():
        assert not server.is_free(key)


def test_a_lock_that_is_held_is_not_acquired(client: dlock.Client, key: str) -> None:
    with client.lock(key, meta="the first") as guard:
        assert client.lock(key).try_acquire() is None
        with pytest.raises(dlock.HeldError) as held, client.lock(key, wait=0):
            pytest.fail("it is held")
        # On a busy machine the node may not have answered by then.
        with pytest.raises((dlock.HeldError, dlock.NoQuorumError)), client.lock(key, wait=0.05):
            pytest.fail("it is held")
    assert held.value.key == key
    assert [report.state for report in held.value.nodes] == ["held"]
    assert held.value.holder is not None
    assert (held.value.holder.fence, held.value.holder.meta) == (guard.fence, "the first")
    assert (held.value.holder.ephemeral, held.value.holder.away) == (False, False)
    assert held.value.holder.id not in ("", guard.token)
    assert held.value.code == "held"
    assert "is held by" in str(held.value)


def test_a_block_may_leave_its_lock_done(client: dlock.Client, key: str) -> None:
    lost: list[dlock.LostError] = []
    with client.lock(key) as guard:
        guard.on_lost(lost.append)
        guard.done(timedelta(minutes=1), "exit 0")
        assert not guard.is_valid
    with pytest.raises(dlock.DoneError) as done:
        client.lock(key).try_acquire()
    error = pickle.loads(pickle.dumps(done.value))
    assert (error.key, error.fence, error.by.outcome) == (key, guard.fence, "exit 0")
    assert 0 < error.left <= 60
    assert 0 <= error.by.since <= 60
    inspected = client.inspect(key)[0].lock
    assert inspected is not None
    assert (inspected.mode, inspected.done and inspected.done.fence) == ("done", guard.fence)
    with client.lock(key, again=True):
        assert lost == []


def test_work_is_done_once_a_window_and_tried_again_if_it_fails(
    server: Server, client: dlock.Client, key: str
) -> None:
    def fails(_: dlock.Guard) -> None:
        raise OSError("no disk")

    lock = client.lock(key)
    with pytest.raises(OSError, match="no disk"):
        lock.run_once(60, fails)
    assert server.is_free(key)
    # A window that is over by the end of the work is no loss.
    for window in (0.001, 0.002, 0.004):
        assert client.lock(f"{key}:{window}").run_once(window, lambda guard: 7) == 7

    async def later(_: dlock.Guard) -> int:
        return 7

    with pytest.raises(TypeError, match="the work has not begun: it is a coroutine"):
        _ = lock.run_once(60, later)
    assert lock.run_once(60, lambda guard: guard.key) == key
    with pytest.raises(dlock.DoneError):
        lock.run_once(60, fails)
    with pytest.raises(dlock.UsageError):
        client.lock(f"{key}:shared", shared=True).run_once(60, fails)
    with pytest.raises(dlock.UsageError):
        lock.run_once(0, fails)


def test_a_guard_that_the_block_has_released_is_not_released_again(
    server: Server, client: dlock.Client, key: str
) -> None:
    with client.lock(key) as guard:
        guard.release()
        assert server.is_free(key)
    with pytest.raises(dlock.LostError, match="it was released"):
        guard.release()
    with pytest.raises(dlock.LostError, match="it was released"):
        guard.extend(60)


def test_a_block_does_not_begin_without_the_lock(server: Server, client: dlock.Client, key: str) -> None:
    released = client.lock(key).acquire()
    released.release()
    with pytest.raises(dlock.LostError, match="it was released"), released:
        pytest.fail("it was released")
    lost = [client.lock(key, max_hold=0.01).acquire()]
    eventually("it is lost", lambda: not lost[0].is_valid)
    with pytest.raises(dlock.LostError, match="not held any more"), lost.pop():
        pytest.fail("it is lost")
    server.until_free(key)


def test_keys_are_text_or_bytes(server: Server, client: dlock.Client, key: str) -> None:
    names: list[tuple[str | bytes, str | bytes]] = [
        (key, key),
        (key.encode(), key),
        (f"{key}:süß", f"{key}:süß"),
        (key.encode() + b"\xff\x00", key.encode() + b"\xff\x00"),
    ]
    for name, shown in names:
        with client.lock(name) as guard:
            assert not server.is_free(name)
            assert guard.key == shown


def test_times_are_seconds_or_timedeltas(client: dlock.Client, key: str) -> None:
    ttls: list[dlock.Seconds] = [20, 20.0, timedelta(seconds=20)]
    for ttl in ttls:
        with client.lock(key, ttl=ttl, wait=timedelta(minutes=1)) as guard:
            assert guard.ttl == 20
            guard.extend(timedelta(minutes=1))
            assert guard.ttl == 60
            assert 20 < guard.valid_for <= 60


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"ttl": -1}, dlock.UsageError, "ttl cannot be -1 seconds"),
        ({"ttl": NAN}, dlock.UsageError, "ttl cannot be nan seconds"),
        (
            {"ttl": INF},
            dlock.UsageError,
            "a lease (ttl) must be between 10 ms and 49 days long, not without end",
        ),
        ({"ttl": -(10**400)}, dlock.UsageError, "ttl cannot be -inf seconds"),
        ({"ttl": "soon"}, TypeError, "ttl is in seconds, or a timedelta, not str"),
        ({"ttl": None}, TypeError, "ttl is in seconds, or a timedelta, not NoneType"),
        ({"ttl": True}, TypeError, "ttl is in seconds, or a timedelta, not bool"),
        ({"wait": -0.5}, dlock.UsageError, "wait cannot be -0.5 seconds"),
        ({"wait": timedelta(seconds=-1)}, dlock.UsageError, "wait cannot be -1 seconds"),
        ({"wait": NAN}, dlock.UsageError, "wait cannot be nan seconds"),
        ({"wait": "10"}, TypeError, "wait is in seconds, or a timedelta, not str"),
        ({"meta": b"x"}, TypeError, "meta is a str, not bytes"),
        ({"max_hold": -INF}, dlock.UsageError, "max_hold cannot be -inf seconds"),
        ({"shared": 1}, TypeError, "shared is True or False, not int"),
        ({"renew": None}, TypeError, "renew is True or False, not NoneType"),
        ({"limit": -1}, dlock.UsageError, "limit is from 1 to 65535, not -1"),
        ({"limit": 70_000}, dlock.UsageError, "limit is from 1 to 65535, not 70000"),
        ({"limit": 1.5}, TypeError, "limit is a whole number of holders, not float"),
        ({"limit": True}, TypeError, "limit is a whole number of holders, not bool"),
        ({"limit": 2, "shared": True}, dlock.UsageError, "a lock is shared, or has a limit; not both"),
    ],
)
def test_wrong_options_are_refused_where_the_lock_is_made(
    options: dict[str, object], error: type[Exception], words: str
) -> None:
    client = dlock.Client("redis://127.0.0.1:1")
    with pytest.raises(error, match=re.escape(words)):
        client.lock("key", **options)  # type: ignore[arg-type]
    if "wait" in options:
        with pytest.raises(error, match=re.escape(words)):
            client.lock("key").acquire(**options)  # type: ignore[arg-type]


def test_type_checkers_know_the_options_and_an_unknown_one_is_refused() -> None:
    threaded = dlock.Client("redis://127.0.0.1:1")
    tasks = dlock.asyncio.Client("redis://127.0.0.1:1")
    # mypy fails if one of these has nothing to ignore.
    with pytest.raises(TypeError, match="ttl is in seconds"):
        threaded.lock("key", ttl="soon")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ttl is in seconds"):
        tasks.lock("key", ttl="soon")  # type: ignore[arg-type]
    known = "there is no option tll; there are ttl, wait, shared, limit, meta, max_hold, again, renew"
    with pytest.raises(TypeError, match=known):
        threaded.lock("key", tll=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=known):
        tasks.lock("key", tll=5)  # type: ignore[call-arg]


def test_a_wrong_node_timeout_and_length_of_a_lease_are_refused_by_name(client: dlock.Client, key: str) -> None:
    with pytest.raises(dlock.UsageError, match="node_timeout cannot be nan seconds"):
        dlock.Client("redis://127.0.0.1:1", node_timeout=NAN)
    with pytest.raises(TypeError, match="node_timeout is in seconds, or a timedelta, not str"):
        dlock.Client("redis://127.0.0.1:1", node_timeout="5")  # type: ignore[arg-type]
    with client.lock(key) as guard:
        with pytest.raises(dlock.UsageError, match="ttl cannot be -1 seconds"):
            guard.extend(-1)
        with pytest.raises(TypeError, match="ttl is in seconds, or a timedelta, not NoneType"):
            guard.extend(None)  # type: ignore[arg-type]
        assert guard.ttl == 30


def test_wrong_keys_and_addresses_are_refused() -> None:
    client = dlock.Client("redis://127.0.0.1:1")
    with pytest.raises(TypeError, match="a key is str or bytes, not int"):
        client.lock(42)  # type: ignore[arg-type]
    with pytest.raises(dlock.UsageError, match="the key is empty"):
        client.lock("")
    with pytest.raises(dlock.UsageError, match="does not begin with redis://") as wrong:
        dlock.Client("http://localhost:6379")
    assert isinstance(wrong.value, ValueError)
    for nodes in (5, [5], b"redis://localhost", {"redis://localhost": 1}):
        with pytest.raises(TypeError, match="nodes are addresses, each a str, not "):
            dlock.Client(nodes)  # type: ignore[arg-type]
    with pytest.raises(dlock.UsageError, match="given twice"):
        dlock.Client(["redis://a", "redis://a:6379"])


def test_a_lost_lock_is_raised_at_the_end_of_the_block(server: Server, client: dlock.Client, key: str) -> None:
    with pytest.raises(dlock.LostError) as lost, client.lock(key) as guard:
        server.run("DLOCK.BREAK", key)
    assert (lost.value.why, lost.value.fence) == ("ended", guard.fence)
    assert [report.node for report in lost.value.nodes] == [server.url]


def test_an_exception_of_the_block_is_not_replaced(
    server: Server, client: dlock.Client, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyError, match="mine"), client.lock(key):
        server.run("DLOCK.BREAK", key)
        raise KeyError("mine")
    eventually("the loss is logged", lambda: "is not held any more" in caplog.text)


def test_a_lock_can_be_acquired_by_many_threads(server: Server, client: dlock.Client, key: str) -> None:
    lock, held, most = client.lock(key), [0], [0]

    def work() -> None:
        for _ in range(5):
            with lock.acquire():
                held[0] += 1
                most[0] = max(most[0], held[0])
                time.sleep(0.001)
                held[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert server.is_free(key)


def test_a_thread_that_waits_does_not_keep_others_from_running(
    server: Server, client: dlock.Client, key: str
) -> None:
    waited = []

    def wait() -> None:
        with client.lock(key) as guard:
            waited.append(guard.fence)

    with client.lock(key) as guard:
        thread = threading.Thread(target=wait)
        thread.start()
        # This needs the GIL.
        server.until_waiting(key, 1)
        assert waited == []
    thread.join()
    assert waited[0] > guard.fence


def test_a_block_may_end_in_another_thread(server: Server, client: dlock.Client, key: str) -> None:
    lock = client.lock(key)
    for step in (lambda: lock.__enter__(), lambda: lock.__exit__(None, None, None)):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    assert server.is_free(key)


def test_a_decorated_function_holds_the_lock(server: Server, client: dlock.Client, key: str) -> None:
    @client.lock(key, wait=60)
    def add(a: int, b: int = 0) -> int:
        """Adds."""
        assert not server.is_free(key)
        return a + b

    assert (add(1, b=2), add.__name__, add.__doc__) == (3, "add", "Adds.")
    assert server.is_free(key)


def test_a_result_that_is_work_to_do_is_refused(server: Server, client: dlock.Client, key: str) -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later_numbers() -> AsyncIterator[int]:
        yield 1

    async def later() -> None: ...

    def wrapped() -> object:
        return later()

    works: list[Any] = [numbers, later_numbers, later, wrapped]
    for work in works:
        for begin in (
            client.lock(key)(work),
            lambda work=work: client.lock(key).run_once(60, lambda _: work()),
        ):
            with pytest.raises(TypeError, match="the work has not begun"):
                begin()
            assert server.is_free(key)
    with pytest.raises(TypeError, match="a lock decorates a function, not property"):
        client.lock(key)(property())  # type: ignore[type-var]


def test_a_lease_without_renewal_outlives_its_guard(server: Server, client: dlock.Client, key: str) -> None:
    guard = client.lock(key, ttl=60, renew=False).acquire()
    fence = guard.fence
    del guard
    gc.collect()
    client.close()
    assert server.fence(key) == fence
    server.run("DLOCK.BREAK", key)


def test_a_guard_without_a_reference_is_logged_by_default(server: Server, key: str) -> None:
    text = "import sys, dlock; dlock.Client(sys.argv[1], node_timeout=60).lock(sys.argv[2]).acquire(); print()"
    words = [sys.executable, "-c", text, server.url, key]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ran.stderr == f"the guard of lock '{key}' was collected, and the lock released: keep the guard\n"


def test_an_exception_can_be_pickled(client: dlock.Client, key: str) -> None:
    with client.lock(key), pytest.raises(dlock.HeldError) as held:
        client.lock(key, wait=0).acquire()
    again = pickle.loads(pickle.dumps(held.value))
    assert type(again) is dlock.HeldError
    assert (again.key, again.nodes, again.holder) == (key, held.value.nodes, held.value.holder)
    assert str(again) == str(held.value)


def test_nothing_else_can_be_pickled_or_copied(client: dlock.Client, key: str) -> None:
    with client.lock(key) as guard:
        for thing in (guard, client, client.lock(key), dlock.asyncio.Client("redis://localhost")):
            for send in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled or copied"):
                    send(thing)
        # A copy that is collected would release it.
        gc.collect()
        guard.check()


def test_annotations_can_be_read() -> None:
    """Pydantic and msgspec do so."""
    for name in dlock.__all__:
        if isinstance(kind := getattr(dlock, name), type):
            get_type_hints(kind)


def test_a_level_that_is_set_after_the_lock_was_made_counts(
    client: dlock.Client, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    lock = client.lock(key)
    with caplog.at_level(logging.DEBUG, logger="dlock"):
        lock.acquire().release()
        eventually("it is logged", lambda: "acquired" in caplog.text)


def test_names_are_those_that_programs_use(client: dlock.Client, key: str) -> None:
    for thing in (dlock.LostError, dlock.HeldError, dlock.Guard, dlock.Client):
        assert thing.__module__ == "dlock"
    with client.lock(key) as guard:
        assert repr(guard).startswith(f"<dlock.Guard '{key}', fence {guard.fence}, valid for ")
    assert repr(client.lock(key)) == f"<dlock.Lock '{key}'>"
    assert repr(dlock.asyncio.Client("redis://localhost").lock(key)) == f"<dlock.asyncio.Lock '{key}'>"
    assert dlock.__version__ == importlib.metadata.version("dlock-redis")
    assert repr(guard).endswith(", not held>")


def test_a_panic_is_an_exception(client: dlock.Client, key: str) -> None:
    with client.lock(key) as guard:
        with pytest.raises(dlock.InternalError, match="a panic for a test"):
            client._native._panic()
        guard.check()
