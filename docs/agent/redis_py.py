"""A job under a lock, with redis-py. Run it: python3 redis_py.py /run/dlock/agent.sock"""

import secrets
import sys

import redis

agent = redis.Redis(unix_socket_path=sys.argv[1], socket_timeout=30)
token = secrets.token_hex(16)

# A WAIT is shorter than the client's time-out.
fence = agent.execute_command("DLOCK.ACQUIRE", "job:42", token, 30_000, "WAIT", 10_000)
if fence is None:
    sys.exit("another client holds the lock")
try:
    print("held with the fence", fence)
    # In work that takes long, from time to time: 1, or the lock is lost and the work has to stop.
    if not agent.execute_command("DLOCK.EXTEND", "job:42", token, 30_000):
        sys.exit("the lock is lost")
finally:
    agent.execute_command("DLOCK.RELEASE", "job:42", token)
