"""dlock without its library: two commands, sent by redis-py. The same language and client as those
that poll, so that what is left is the queue in the server; or `dlock agent`, which has the same commands.

`WAIT 0` waits without limit. `socket_timeout` is None, because the answer comes when the lock is free.
"""

import uuid

import redis

from closed_loop import run


class Client:
    def __init__(self, nodes, ttl_ms):
        [node] = nodes
        url = node if "://" in node else f"redis://{node}"
        self.redis = redis.Redis.from_url(url, socket_timeout=None)
        self.ttl_ms = ttl_ms

    def acquire(self, key):
        token = uuid.uuid4().hex
        self.redis.execute_command("DLOCK.ACQUIRE", key, token, self.ttl_ms, "WAIT", 0)
        return key, token

    def release(self, held):
        if self.redis.execute_command("DLOCK.RELEASE", *held) != 1:
            raise RuntimeError("the lock was lost")


run(f"DLOCK commands by redis-py {redis.__version__}", Client)
