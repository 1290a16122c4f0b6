"""Drives docs/examples/redis_py_asyncio.py: PORT, what to do, and its arguments. An agent at the socket
AGENT has the locks."""

import asyncio
import os
import random
import sys

import redis.asyncio as redis
import redis_py_asyncio
from redis_py_asyncio import Lost, lock

port, action, *arguments = sys.argv[1:]
timeouts = {"socket_timeout": float(os.environ["READ_TIMEOUT"])} if "READ_TIMEOUT" in os.environ else {}
told = {"read_timeout": float(os.environ["TOLD"])} if "TOLD" in os.environ else {}

at = {"unix_socket_path": os.environ["AGENT"]} if "AGENT" in os.environ else {"port": int(port)}
pool = int(os.environ.get("POOL", 100))
redis_py_asyncio.WAITING = asyncio.Semaphore(pool // 2)


def say(*words):
    print(*words, flush=True)


async def count(client, key, times, tasks):
    data = redis.Redis(port=int(port))

    async def work():
        for _ in range(int(times)):
            async with lock(client, key, wait=600.0):
                seen = int(await data.get("counter") or 0)
                await asyncio.sleep(0.001)
                await data.set("counter", seen + 1)

    await asyncio.gather(*(work() for _ in range(int(tasks))))
    await data.aclose()


async def turn(client, key, name):
    async with lock(client, key, wait=600.0, keep=60.0, **told):
        await client.rpush("order", name)


async def hold(client, key, ttl):
    try:
        async with lock(client, key, ttl=float(ttl)) as fence:
            say("held", fence)
            line = asyncio.Event()
            asyncio.get_running_loop().add_reader(sys.stdin, line.set)
            await line.wait()
    except Lost:
        say("lost")
    else:
        say("released")


async def fail(client, key):
    try:
        async with lock(client, key, wait=1.0):
            say("held")
    except redis.RedisError as error:
        say(type(error).__name__, error)


async def cancel(client, key, times, tasks):
    """Cancels tasks that wait, in the moment in which their lock becomes free."""
    granted, left = [], []

    async def wait(key):
        async with lock(client, key, wait=600.0):
            granted.append(key)
            await asyncio.sleep(600)

    async def work(key):
        for _ in range(int(times)):
            await client.execute_command("DLOCK.ACQUIRE", key, "before", 600_000)
            waiter = asyncio.create_task(wait(key))
            while not await waits(client, key):
                pass
            releasing = asyncio.create_task(client.execute_command("DLOCK.RELEASE", key, "before"))
            await asyncio.sleep(random.uniform(0, 0.005))
            waiter.cancel()
            await asyncio.gather(waiter, releasing, return_exceptions=True)
            if await client.execute_command("DLOCK.INSPECT", key) is not None:
                left.append(key)

    await asyncio.gather(*(work(f"{key}:{task}") for task in range(int(tasks))))
    say("granted", len(granted), "left", len(left))


async def waits(client, key):
    return (await client.execute_command("DLOCK.INSPECT", key))[b"waiting"] >= 1


async def main():
    async with redis.Redis(**at, max_connections=pool, **timeouts) as client:
        actions = {"count": count, "turn": turn, "hold": hold, "fail": fail, "cancel": cancel}
        await actions[action](client, *arguments)


asyncio.run(main())
