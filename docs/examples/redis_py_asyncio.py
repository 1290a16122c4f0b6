"""A lock of dlock from redis-py with asyncio, which a task can wait for and be cancelled.

Tried with redis-py 8.1 and Python 3.11. Run it: python3 redis_py_asyncio.py redis://localhost
"""

import asyncio
import contextlib
import secrets
import sys

import redis.asyncio as redis


# So many requests wait at the server at a time. More would leave no connection in the pool for others.
WAITING = asyncio.Semaphore(50)


class Lost(Exception):
    """The lock is lost: another client may hold it."""


@contextlib.asynccontextmanager
async def lock(client, key, wait=60.0, ttl=30.0, keep=5.0, read_timeout=5.0):
    """Holds a lock during an `async with` block, and gives its fence. If the lock is lost, the block
    is cancelled and Lost is raised. Times are in seconds; read_timeout is the client's."""
    token, now, renewal = secrets.token_hex(16), asyncio.get_running_loop().time, None
    fence, deadline = None, now() + wait
    short = min(ttl, keep)  # a waiter may ask for no more; the first renewal makes it longer
    stray = False  # whether an earlier request may still be on its way
    try:
        while fence is None:
            sent, earlier, stray = now(), stray, True
            left = deadline - sent
            # Half of the time-out: no request ends by it. A third of the lease: it is young when heard.
            span = min(read_timeout / 2, short / 3, left)
            waits = left > 0 and not WAITING.locked() and await WAITING.acquire()
            words = ["KEEP", ms(keep), "WAIT", ms(span)] if waits else ["KEEP", ms(keep)]
            pause = 0 if waits else 0.05
            try:
                fence = await client.execute_command("DLOCK.ACQUIRE", key, token, ms(short), *words)
                # redis-py asks again by itself after a time-out. The answer has taken longer then.
                stray = earlier or now() - sent >= read_timeout
            except redis.RedisError as error:
                if left <= 0 or not may_pass(error):
                    raise
                pause = 0.05
            finally:
                if waits:
                    WAITING.release()
            if fence is None:
                if left <= 0:
                    raise TimeoutError(f"{key} was not free within {wait} s")
                await asyncio.sleep(pause)
        # The lease counts from the sending. Clocks differ by less than a hundredth.
        async with asyncio.timeout_at(sent + 0.99 * short) as lease:
            renewal = asyncio.create_task(renew(client, key, token, fence, ttl, short, lease))
            yield fence
            if now() >= lease.when():
                raise Lost
    except TimeoutError:
        if renewal and lease.expired():
            raise Lost from None
        raise
    finally:
        if renewal:
            renewal.cancel()
        # It goes on if this task is cancelled once more.
        releasing = asyncio.create_task(release(client, key, token, stray, keep))
        RELEASES.add(releasing)
        releasing.add_done_callback(RELEASES.discard)
        await asyncio.shield(releasing)


RELEASES = set()  # the loop itself does not keep tasks alive


async def renew(client, key, token, fence, ttl, length, lease):
    extended, words = True, ["FENCE", fence]
    while extended:
        sent = asyncio.get_running_loop().time()
        with contextlib.suppress(redis.RedisError):  # the next turn asks again
            extended = await client.execute_command("DLOCK.EXTEND", key, token, ms(ttl), *words)
            length = ttl
            if not lease.expired():
                lease.reschedule(sent + 0.99 * ttl if extended else sent)
        await asyncio.sleep(length / 3)


async def release(client, key, token, stray, patience):
    # A stray request that arrives after FINAL takes no lock.
    final = ["FINAL"] if stray else []
    until = asyncio.get_running_loop().time() + patience  # later the lease ends by itself
    while asyncio.get_running_loop().time() < until:
        try:
            return await client.execute_command("DLOCK.RELEASE", key, token, *final)
        except (redis.ConnectionError, redis.TimeoutError):
            await asyncio.sleep(0.05)
        except redis.RedisError:
            return None


def may_pass(error):
    unheard = isinstance(error, (redis.ConnectionError, redis.TimeoutError))
    return unheard or str(error).startswith("QUARANTINE")


def ms(seconds):
    return max(1, int(1000 * seconds))  # WAIT 0 would be without limit


async def main():
    async with redis.Redis.from_url(sys.argv[1]) as server, lock(server, "job:42") as fence:
        print("held with the fence", fence)
        # The server refuses this if a later holder has been here.
        await server.execute_command("DLOCK.FENCED", "{job:42}:mark", fence, "INCR", "{job:42}:runs")


if __name__ == "__main__":
    asyncio.run(main())
