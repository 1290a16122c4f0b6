"""Locks for asyncio."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

import dlock
import dlock.asyncio
from server import LEASE, PATIENCE, Server, eventually


def test_a_lock_is_held_during_a_block(server: Server, key: str) -> None:
    async def main() -> None:
        async with dlock.asyncio.Client(server.url, node_timeout=PATIENCE) as client:
            async with client.lock(key) as guard:
                assert server.fence(key) == guard.fence
                guard.check()
                await guard.extend(60)
                assert guard.ttl == 60
                assert await client.lock(key).try_acquire() is None
                with pytest.raises(dlock.HeldError):
                    await client.lock(key, wait=0).acquire()
            assert server.is_free(key)
            second = await client.lock(key).acquire()
            assert second.fence > guard.fence
            await second.release()
            assert server.is_free(key)

    asyncio.run(main())


def test_a_client_can_be_used_by_one_loop_after_the_other(server: Server, key: str) -> None:
    client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)

    async def main() -> int:
        async with client.lock(key) as guard:
            return guard.fence

    assert asyncio.run(main()) < asyncio.run(main())


def test_other_tasks_run_while_one_waits(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        turns = []

        async def take(number: int) -> None:
            async with client.lock(key):
                turns.append(number)

        async with asyncio.TaskGroup() as group:
            async with client.lock(key):
                for number in range(3):
                    group.create_task(take(number))
                    while await asyncio.to_thread(server.waiting, key) != number + 1:
                        await asyncio.sleep(0.001)
                assert turns == []
        assert turns == [0, 1, 2]

    asyncio.run(main())


def test_a_lost_lock_cancels_the_block_and_is_raised(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        async with client.lock(key, ttl=LEASE):
            server.run("DLOCK.BREAK", key)
            await asyncio.sleep(600)

    with pytest.raises(dlock.LostError) as lost:
        asyncio.run(main())
    assert (lost.value.why, lost.value.key) == ("ended", key)
    assert isinstance(lost.value.__cause__, asyncio.CancelledError)


def test_the_loss_of_an_outer_lock_is_raised_by_the_outer_block(server: Server, key: str) -> None:
    async def main() -> str:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        try:
            async with client.lock(f"{key}:outer", ttl=LEASE):
                try:
                    async with client.lock(f"{key}:inner"):
                        server.run("DLOCK.BREAK", f"{key}:outer")
                        await asyncio.sleep(600)
                except dlock.LostError:
                    return "inner"
        except dlock.LostError as lost:
            return str(lost.key)
        return "none"

    assert asyncio.run(main()) == f"{key}:outer"
    server.until_free(f"{key}:inner")


def test_after_a_loss_the_task_is_not_cancelled_any_more(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        with pytest.raises(dlock.LostError):
            async with client.lock(key, max_hold=0.01):
                await asyncio.sleep(600)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)
        async with asyncio.timeout(60), client.lock(key):
            await asyncio.sleep(0.001)

    asyncio.run(main())


def test_a_cancellation_from_outside_is_not_swallowed(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        entered = asyncio.Event()

        async def work() -> None:
            async with client.lock(key):
                entered.set()
                await asyncio.sleep(600)

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert server.is_free(key)

    asyncio.run(main())


def test_a_cancellation_from_outside_beside_a_loss_is_not_swallowed(server: Server, key: str) -> None:
    async def main(first: str) -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        entered = asyncio.Event()
        guards: list[dlock.asyncio.Guard] = []

        async def work() -> None:
            async with client.lock(key) as guard:
                guards.append(guard)
                entered.set()
                await asyncio.sleep(600)

        task = asyncio.create_task(work())
        await entered.wait()
        # Both in one turn of the loop.
        loss = dlock.LostError("for this test")
        if first == "loss":
            guards[0]._on_loss(loss)
        task.cancel()
        if first == "task":
            guards[0]._on_loss(loss)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    for first in ("loss", "task"):
        asyncio.run(main(first))
        server.until_free(key)


def test_a_timeout_around_a_wait_is_a_timeout(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        async with client.lock(key):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), client.lock(key):
                    pytest.fail("it is held")
            while await asyncio.to_thread(server.waiting, key) != 0:
                await asyncio.sleep(0.001)

    asyncio.run(main())
    server.until_free(key)


def test_an_exception_of_the_block_is_not_replaced(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        async with client.lock(key):
            server.run("DLOCK.BREAK", key)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(main())


def test_a_thousand_cancellations_at_the_moment_of_the_grant_leave_nothing(server: Server, key: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)

    async def main() -> tuple[int, int]:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        taken = given_up = 0
        loop = asyncio.get_running_loop()

        # Measures how long a grant takes here, so that the cancellations fall around it.
        lengths = []
        for _ in range(50):
            begin = loop.time()
            guard = await client.lock(key).acquire()
            lengths.append(loop.time() - begin)
            await guard.release()
        usual = sorted(lengths)[25]

        async def take() -> None:
            async with client.lock(key, ttl=600):
                pass

        for _ in range(1000):
            task = asyncio.create_task(take())
            until = loop.time() + usual * 2 * chance.random()
            while loop.time() < until and not task.done():
                await asyncio.sleep(0)
            # About every second one is to be cancelled, however busy the machine is by now.
            usual *= 0.9 if task.done() else 1.1
            task.cancel()
            try:
                await task
                taken += 1
            except asyncio.CancelledError:
                given_up += 1
        await client.close()
        return taken, given_up

    taken, given_up = asyncio.run(main())
    assert taken + given_up == 1000
    assert given_up > 100, (taken, given_up)
    server.until_free(key)


def test_a_release_that_is_cancelled_at_any_moment_releases(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        for step in range(100):
            guard = await client.lock(f"{key}:{step}", ttl=600).acquire()
            task = asyncio.create_task(guard.release())
            for _ in range(step % 10):
                await asyncio.sleep((step // 10) * 0.00005)
            task.cancel()
            await asyncio.wait([task])
            del guard, task
        await client.close()

    asyncio.run(main())
    for step in range(100):
        server.until_free(f"{key}:{step}")


def test_a_loop_that_ends_leaves_nothing(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        asyncio.create_task(client.lock(key, ttl=600).acquire())  # noqa: RUF006
        await asyncio.sleep(0)

    for _ in range(50):
        asyncio.run(main())
    gc.collect()
    server.until_free(key)


def close_loop_when(ready: Callable[[], object], work: Coroutine[object, object, object]) -> None:
    """Closes a loop in which a task is pending, which is collected then."""

    async def until_ready() -> None:
        while not ready():
            await asyncio.sleep(0.005)

    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    loop.run_until_complete(until_ready())
    loop.close()
    # Python would log that it was pending.
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task, loop, work
    gc.collect()


def test_a_loop_that_is_closed_while_a_task_waits_leaves_nothing(
    server: Server, client: dlock.Client, key: str
) -> None:
    guard = client.lock(key).acquire()
    work = dlock.asyncio.Client(server.url, node_timeout=PATIENCE).lock(key).acquire
    close_loop_when(lambda: server.waiting(key) == 1, work())
    guard.release()
    server.until_free(key)


def test_a_loop_that_is_closed_while_a_task_holds_leaves_nothing(server: Server, key: str) -> None:
    lock = dlock.asyncio.Client(server.url, node_timeout=PATIENCE).lock(key)
    begun = threading.Event()

    async def holds() -> None:
        async with lock:
            begun.set()
            await asyncio.sleep(600)

    close_loop_when(begun.is_set, holds())
    server.until_free(key)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_task_that_is_destroyed_ends_its_own_block_and_no_other(
    server: Server, key: str, is_first: bool
) -> None:
    lock = dlock.asyncio.Client(server.url, node_timeout=PATIENCE).lock(key, limit=2)

    async def block(work: Callable[[dlock.asyncio.Guard], Awaitable[object]]) -> None:
        async with await lock.acquire() as guard:
            await work(guard)

    async def begin_another() -> None:
        begun = asyncio.Event()

        async def wait(_: object) -> None:
            begun.set()
            # Only the task itself refers to this.
            await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(block(wait))
        # Python would log that it was pending.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        await begun.wait()

    async def survive(guard: dlock.asyncio.Guard) -> None:
        if not is_first:
            await begin_another()
        gc.collect()
        await asyncio.to_thread(eventually, "the other block has ended", lambda: server.holders(key) == 1)
        assert server.fence(key) == guard.fence
        guard.check()

    async def main() -> None:
        if is_first:
            await begin_another()
        await block(survive)

    asyncio.run(main())
    server.until_free(key)


def test_a_block_does_not_begin_without_the_lock(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        guard = await client.lock(key, max_hold=0.01).acquire()
        await guard.lost()
        with pytest.raises(dlock.LostError):
            async with guard:
                pytest.fail("it is lost")

    asyncio.run(main())
    server.until_free(key)


def test_a_task_that_ends_the_loop_takes_no_outcome_from_the_others(server: Server, key: str) -> None:
    client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
    names = [f"{key}:{number}" for number in range(5)]

    async def acquires(name: str) -> dlock.asyncio.Guard:
        guard = await client.lock(name).acquire()
        if name == names[0]:
            raise SystemExit
        return guard

    async def blocks() -> None:
        # So all outcomes are there when the loop looks for them.
        eventually("all are held", lambda: not any(server.is_free(name) for name in names))

    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.close())
    tasks = [loop.create_task(acquires(name)) for name in names]
    blocking = loop.create_task(blocks())
    with pytest.raises(SystemExit):
        loop.run_forever()
    assert blocking.done()
    guards = loop.run_until_complete(asyncio.gather(*tasks[1:]))
    for guard in guards:
        guard.check()
        loop.run_until_complete(guard.release())
    with pytest.raises(SystemExit):
        tasks[0].result()
    loop.close()


def test_a_guard_tells_its_loss_to_its_waiter(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        guard = await client.lock(key, ttl=LEASE).acquire()
        waiting = asyncio.create_task(guard.lost())
        await asyncio.sleep(0)
        server.run("DLOCK.BREAK", key)
        loss = await waiting
        assert (loss.why, loss.fence) == ("ended", guard.fence)
        with pytest.raises(dlock.LostError):
            await guard.release()

    asyncio.run(main())


def test_a_lock_begins_one_block(server: Server, key: str) -> None:
    async def main() -> None:
        lock = dlock.asyncio.Client(server.url, node_timeout=PATIENCE).lock(key, wait=0)
        async with await lock.acquire():
            with pytest.raises(dlock.HeldError):
                async with lock:
                    pytest.fail("it is held")
        async with lock:
            assert not server.is_free(key)
        assert server.is_free(key)
        with pytest.raises(dlock.UsageError, match="acquire"):
            async with lock:
                pytest.fail("a second block begins")

    asyncio.run(main())


def test_a_decorated_coroutine_function_holds_the_lock(server: Server, key: str) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)

        @client.lock(key, wait=60)
        async def add(a: int, b: int) -> int:
            assert not server.is_free(key)
            return a + b

        assert await add(1, 2) == 3
        assert server.is_free(key)

        def wrapped(a: int, b: int) -> Awaitable[int]:
            return add(a, b)

        assert await client.lock(f"{key}:wrapped")(wrapped)(1, 2) == 3

        def numbers() -> Any:
            yield 1

        async def later_numbers() -> Any:
            yield 1

        for work in (numbers, later_numbers):
            with pytest.raises(TypeError, match="the work has not begun"):
                await client.lock(key)(work)()
            assert server.is_free(key)

    asyncio.run(main())


def test_a_guard_that_is_collected_releases_and_warns(
    server: Server, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        client = dlock.asyncio.Client(server.url, node_timeout=PATIENCE)
        guard = await client.lock(key).acquire()
        del guard
        gc.collect()

    asyncio.run(main())
    server.until_free(key)
    eventually("it is logged", lambda: f"the guard of lock '{key}' was collected" in caplog.text)


def test_a_task_that_has_left_its_lock_done_is_not_cancelled(server: Server, key: str) -> None:
    async def work(guard: dlock.asyncio.Guard) -> str:
        await guard.done(60, "3 rows")
        # A loss would arrive by now.
        assert (await guard.lost()).why == "done"
        await asyncio.sleep(0.05)
        return "worked"

    async def main() -> None:
        lock = dlock.asyncio.Client(server.url, node_timeout=PATIENCE).lock(key)
        assert await lock.run_once(60, work) == "worked"
        with pytest.raises(dlock.DoneError) as done:
            await lock.run_once(60, work)
        assert done.value.by is not None
        assert done.value.by.outcome == "3 rows"
        plain = dlock.asyncio.Client(server.url, node_timeout=PATIENCE).lock(f"{key}:plain")
        assert await plain.run_once(60, lambda guard: guard.fence) > 0  # type: ignore[arg-type, return-value]
        with pytest.raises(dlock.DoneError):
            await plain.run_once(60, work)

    asyncio.run(main())
