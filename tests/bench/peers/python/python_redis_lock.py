"""python-redis-lock: SET NX EX, and BLPOP on a list into which a release puts a signal.

Its defaults are kept: it blocks without limit. `socket_timeout` is None: BLPOP blocks for as long as
the lease, 10 s, and redis-py's own default of 5 s would break it off with an error.
"""

from importlib.metadata import version

import redis
import redis_lock

from closed_loop import run


class Client:
    def __init__(self, nodes, ttl_ms):
        [node] = nodes
        self.redis = redis.Redis.from_url(f"redis://{node}", socket_timeout=None)
        self.expire = ttl_ms // 1000

    def acquire(self, key):
        lock = redis_lock.Lock(self.redis, key, expire=self.expire)
        if not lock.acquire():
            raise RuntimeError("it gave up")
        return lock

    def release(self, lock):
        lock.release()


run(f"python-redis-lock {version('python-redis-lock')} with redis-py {redis.__version__}", Client)
