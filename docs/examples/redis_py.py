"""A lock of dlock from redis-py, with the pool, the time-outs and the retries that it has anyway.

Tried with redis-py 8.1 and Python 3.11. Run it: python3 redis_py.py redis://localhost
"""

import contextlib
import os
import secrets
import sys
import threading
from time import monotonic, sleep

import redis


# So many requests wait at the server at a time. More would leave no connection in the pool for others.
WAITING = threading.Semaphore(50)


class Lost(Exception):
    """The lock is lost: another client may hold it."""


class Held:
    """A lock that was granted. Show its fence to whatever can refuse a smaller one."""

    def __init__(self):
        self.fence, self.until, self.pid = None, 0.0, os.getpid()

    def check(self):
        # A child of fork is not the holder, and does not renew the lease.
        if monotonic() >= self.until or os.getpid() != self.pid:
            raise Lost


@contextlib.contextmanager
def lock(client, key, wait=60.0, ttl=30.0, keep=5.0, read_timeout=5.0):
    """Holds a lock during a `with` block. Times are in seconds; read_timeout is the client's."""
    token, held, done = secrets.token_hex(16), Held(), threading.Event()
    deadline = monotonic() + wait
    lease = min(ttl, keep)  # a waiter may ask for no more; the first renewal makes it longer
    stray = False  # whether an earlier request may still be on its way
    try:
        while held.fence is None:
            sent, earlier, stray = monotonic(), stray, True
            left = deadline - sent
            # Half of the time-out: no request ends by it. A third of the lease: it is young when heard.
            span = min(read_timeout / 2, lease / 3, left)
            waits = left > 0 and WAITING.acquire(blocking=False)
            words = ["KEEP", ms(keep), "WAIT", ms(span)] if waits else ["KEEP", ms(keep)]
            pause = 0 if waits else 0.05
            try:
                held.fence = client.execute_command("DLOCK.ACQUIRE", key, token, ms(lease), *words)
                # redis-py asks again by itself after a time-out. The answer has taken longer then.
                stray = earlier or monotonic() - sent >= read_timeout
                # The lease counts from the sending. Clocks differ by less than a hundredth.
                held.until = sent + 0.99 * lease
                if monotonic() >= held.until:
                    held.fence = None  # it may be over: asks again
            except redis.RedisError as error:
                if left <= 0 or not may_pass(error):
                    raise
                pause = 0.05
            finally:
                if waits:
                    WAITING.release()
            if held.fence is None:
                if left <= 0:
                    raise TimeoutError(f"{key} was not free within {wait} s")
                sleep(pause)
        renewal = (client, key, token, ttl, lease, held, done)
        threading.Thread(target=renew, args=renewal, daemon=True).start()
        yield held
        held.check()
    finally:
        done.set()
        if os.getpid() == held.pid:
            release(client, key, token, stray, keep)


def renew(client, key, token, ttl, lease, held, done):
    pause = 0
    while not done.wait(pause):
        sent, pause, words = monotonic(), lease / 3, ["FENCE", held.fence]
        with contextlib.suppress(redis.RedisError):  # the next turn asks again
            extended = client.execute_command("DLOCK.EXTEND", key, token, ms(ttl), *words)
            held.until = sent + 0.99 * ttl if extended else 0.0
            lease = ttl


def release(client, key, token, stray, patience):
    # A stray request that arrives after FINAL takes no lock.
    final = ["FINAL"] if stray else []
    until = monotonic() + patience  # later the lease ends by itself
    while monotonic() < until:
        try:
            return client.execute_command("DLOCK.RELEASE", key, token, *final)
        except (redis.ConnectionError, redis.TimeoutError):
            sleep(0.05)
        except redis.RedisError:
            return None


def may_pass(error):
    unheard = isinstance(error, (redis.ConnectionError, redis.TimeoutError))
    return unheard or str(error).startswith("QUARANTINE")


def ms(seconds):
    return max(1, int(1000 * seconds))  # WAIT 0 would be without limit


if __name__ == "__main__":
    server = redis.Redis.from_url(sys.argv[1])
    with lock(server, "job:42") as held:
        print("held with the fence", held.fence)
        # The server refuses this if a later holder has been here.
        server.execute_command("DLOCK.FENCED", "{job:42}:mark", held.fence, "INCR", "{job:42}:runs")
