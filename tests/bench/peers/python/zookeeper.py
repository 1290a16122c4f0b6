"""ZooKeeper's lock by kazoo, kazoo.recipe.lock.Lock: a queue of nodes that end with their sessions,
each client watching the one before its own.

Its defaults are kept: it blocks without limit. Each client has a session of its own, which ends 10 s
after its connection, as the leases of the others do; kazoo chooses one of the members at random.
"""

from importlib.metadata import version

from kazoo.client import KazooClient

from closed_loop import run


class Client:
    def __init__(self, nodes, ttl_ms):
        self.zookeeper = KazooClient(hosts=",".join(nodes), timeout=ttl_ms / 1e3)
        self.zookeeper.start(timeout=30)

    def acquire(self, key):
        lock = self.zookeeper.Lock("/" + key)
        if not lock.acquire():
            raise RuntimeError("it gave up")
        return lock

    def release(self, lock):
        lock.release()


run(f"kazoo {version('kazoo')}", Client)
