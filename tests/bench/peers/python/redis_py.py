"""redis-py's own lock, redis.lock.Lock: SET NX PX, asked again every 100 ms.

Its defaults are kept: `sleep` 0.1 s, `blocking_timeout` None, so that it never gives up. Each client
has a Redis object of its own, with a connection of its own.
"""

import hiredis
import redis

from closed_loop import run


class Client:
    def __init__(self, nodes, ttl_ms):
        [node] = nodes
        self.redis = redis.Redis.from_url(f"redis://{node}")
        self.ttl = ttl_ms / 1e3

    def acquire(self, key):
        lock = self.redis.lock(key, timeout=self.ttl)
        if not lock.acquire():
            raise RuntimeError("it gave up")
        return lock

    def release(self, lock):
        lock.release()


run(f"redis-py {redis.__version__} with hiredis {hiredis.__version__}", Client)
