"""Drives docs/examples/redis_py.py: PORT, what to do, and its arguments. An agent at the socket AGENT
has the locks."""

import os
import select
import sys
import threading
import time

import redis
import redis_py
from redis_py import Lost, lock

port, action, *arguments = sys.argv[1:]
timeouts = {"socket_timeout": float(os.environ["READ_TIMEOUT"])} if "READ_TIMEOUT" in os.environ else {}
told = {"read_timeout": float(os.environ["TOLD"])} if "TOLD" in os.environ else {}
pool = int(os.environ.get("POOL", 100))
redis_py.WAITING = threading.Semaphore(pool // 2)
at = {"unix_socket_path": os.environ["AGENT"]} if "AGENT" in os.environ else {"port": int(port)}
client = redis.Redis(**at, max_connections=pool, **timeouts)
data = redis.Redis(port=int(port))


def say(*words):
    print(*words, flush=True)


def count(key, times, tasks):
    def work():
        for _ in range(int(times)):
            with lock(client, key, wait=600.0):
                seen = int(data.get("counter") or 0)
                time.sleep(0.001)
                data.set("counter", seen + 1)

    threads = [threading.Thread(target=work) for _ in range(int(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def turn(key, name):
    with lock(client, key, wait=600.0, keep=60.0, **told):
        data.rpush("order", name)


def hold(key, ttl):
    try:
        with lock(client, key, ttl=float(ttl)) as held:
            say("held", held.fence)
            while not select.select([sys.stdin], [], [], 0.1)[0]:
                held.check()
    except Lost:
        say("lost")
    else:
        say("released")


def fail(key):
    try:
        with lock(client, key, wait=1.0):
            say("held")
    except redis.RedisError as error:
        say(type(error).__name__, error)


def fork(key):
    """A child leaves the block before its parent does."""
    with lock(client, key) as held:
        child = os.fork()
        if not child:
            try:
                held.check()
            except Lost:
                sys.exit(7)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        held.check()
        say("child", code, "holders", len(client.execute_command("DLOCK.INSPECT", key)[b"holders"]))


{"count": count, "turn": turn, "hold": hold, "fail": fail, "fork": fork}[action](*arguments)
