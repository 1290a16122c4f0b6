"""Threads that wait: signals, the end of the interpreter, outages, logging, greenlets."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

import dlock
from conftest import Program
from server import LEASE, PATIENCE, Server, eventually

Start = Callable[..., Program]

BEGIN = """
import os, sys, signal, threading, time
import dlock
url, key = sys.argv[1:3]
client = dlock.Client(url, node_timeout=60)
"""


def test_control_c_ends_a_wait_and_leaves_nothing(
    server: Server, client: dlock.Client, key: str, program: Start
) -> None:
    text = """
try:
    with client.lock(key):
        print("held")
except KeyboardInterrupt:
    print("interrupted")
sys.stdin.readline()
"""
    with client.lock(key):
        running = program(BEGIN + text, server.url, key)
        server.until_waiting(key, 1)
        running.process.send_signal(signal.SIGINT)
        assert running.line() == "interrupted"
        server.until_waiting(key, 0)
    running.tell()
    running.end()
    assert server.is_free(key)


def test_a_signal_whose_handler_returns_does_not_end_a_wait(
    server: Server, client: dlock.Client, key: str, program: Start
) -> None:
    text = """
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
with client.lock(key):
    print("held")
"""
    with client.lock(key):
        running = program(BEGIN + text, server.url, key)
        server.until_waiting(key, 1)
        running.process.send_signal(signal.SIGUSR1)
        assert running.line() == "handled"
        assert server.waiting(key) == 1
    assert running.line() == "held"
    running.end()


# As uWSGI does it: variables of the thread end before the interpreter.
IN_EXIT = """
import ctypes
library = ctypes.PyDLL(None)
library.__cxa_atexit(ctypes.pythonapi.Py_FinalizeEx, None, None)
library.exit(4)
"""


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise ValueError", IN_EXIT])
def test_the_end_of_the_interpreter_releases(server: Server, key: str, program: Start, ending: str) -> None:
    text = "guards = [client.lock(f'{key}:{n}', ttl=600).acquire() for n in range(20)]\n" + ending
    running = program(BEGIN + text, server.url, key)
    said = running.end({"": 0, "sys.exit(3)": 3, IN_EXIT: 4}.get(ending, 1))
    assert "atexit" not in said
    # Nothing is left when the process has ended.
    for number in range(20):
        assert server.is_free(f"{key}:{number}")


IN_A_THREAD = {
    "a thread": "client.lock(key).acquire()",
    "a loop": """
import asyncio, dlock.asyncio
asyncio.run(dlock.asyncio.Client(url, node_timeout=60).lock(key).acquire())
""",
}


@pytest.mark.parametrize("waits", IN_A_THREAD.values(), ids=IN_A_THREAD)
def test_the_end_of_the_interpreter_leaves_the_queue(
    server: Server, client: dlock.Client, key: str, program: Start, waits: str
) -> None:
    text = f"""
waits = {waits!r}
threading.Thread(target=lambda: exec(waits, globals()), daemon=True).start()
sys.stdin.readline()
"""
    with client.lock(key):
        running = program(BEGIN + text, server.url, key)
        server.until_waiting(key, 1)
        running.tell()
        assert running.end() == ""
        # The place is not reserved after the end.
        assert server.waiting(key) == 0


def test_a_wait_goes_on_through_an_outage_and_logs_it(
    own_servers: Callable[..., Server], key: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = own_servers()
    with caplog.at_level(logging.INFO, logger="dlock"):
        client = dlock.Client(server.url, node_timeout=10)
        # The quarantine after the crash is as long as the server's longest lease.
        lock = client.lock(key, ttl=LEASE)
        lock.acquire().release()
        server.kill()
        held: list[dlock.Guard] = []
        thread = threading.Thread(target=lambda: held.append(lock.acquire()))
        thread.start()
        eventually("it is told", lambda: f"waiting for lock '{key}'" in caplog.text)
        record = next(record for record in caplog.records if "no majority" in record.message)
        assert (record.name, record.levelname) == ("dlock", "WARNING")
        server.start()
        thread.join()
        held[0].release()
        eventually("its end, too", lambda: "answers again" in caplog.text)


def test_daemon_threads_that_acquire_while_the_interpreter_ends_leave_nothing(
    server: Server, key: str, program: Start
) -> None:
    text = """
began = threading.Barrier(31)
def work(number):
    lock = client.lock(f"{key}:{number}", ttl=600)
    lock.acquire().release()
    began.wait()
    while True:
        lock.acquire().release()
for number in range(30):
    threading.Thread(target=work, args=(number,), daemon=True).start()
began.wait()
"""
    for _ in range(2):
        assert program(BEGIN + text, server.url, key).end() == ""
        assert [number for number in range(30) if not server.is_free(f"{key}:{number}")] == []


DAEMONS = """
sys.setswitchinterval(1e-4)
def looks():
    while True:
        client.inspect(key + ":free")
def loses():
    guard = client.lock(key + ":lost").acquire()
    guard.release()
    while True:
        try:
            guard.check()
        except dlock.LostError:
            pass
for work in (looks, looks, loses):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.parametrize("daemons", ["", DAEMONS], ids=["alone", "daemons"])
def test_the_interpreter_ends_while_dlock_is_busy(
    server: Server, key: str, program: Start, daemons: str
) -> None:
    text = """
import logging
logging.basicConfig(level=logging.DEBUG)
with client.lock(key) as guard:
    pass
"""
    for _ in range(3):
        # Python would abort where a thread of Rust needs the interpreter.
        said = program(BEGIN + daemons + text, server.url, key).end()
        assert f"acquired key={key} " in said


def test_the_end_of_the_interpreter_does_not_wait_for_a_hung_node(
    own_servers: Callable[..., Server], key: str, program: Start
) -> None:
    server = own_servers()
    text = """
client = dlock.Client(url, node_timeout=3600)
guard = client.lock(key).acquire()
print("held")
sys.stdin.readline()
"""
    running = program(BEGIN + text, server.url, key)
    assert running.line() == "held"
    server.pause()
    running.tell()
    running.end()


def test_an_outcome_that_no_loop_collects_does_not_outlive_the_interpreter(
    server: Server, key: str, program: Start
) -> None:
    text = """
import asyncio, ctypes, dlock.asyncio
async def main():
    asyncio.create_task(dlock.asyncio.Client(url, node_timeout=60).lock(key, ttl=600).acquire())
    await asyncio.sleep(0)
    # The lock is granted while the loop does not run.
    with client.lock(key + ":other"):
        print("held")
        sys.stdin.readline()
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
# The end of the interpreter does not collect it.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(loop))
"""
    running = program(BEGIN + text, server.url, key)
    assert running.line() == "held"
    eventually("it is granted", lambda: not server.is_free(key))
    running.tell()
    running.process.wait(PATIENCE)
    assert server.is_free(key)


def test_interrupts_at_random_moments_leave_no_lock(server: Server, key: str, program: Start) -> None:
    # No code of Python runs in dlock at the beginning and end of a block.
    text = """
import random
class Interrupt(BaseException):
    pass
def once():
    with client.lock(key, ttl=600, wait=60):
        pass
fired = 0
def interrupt(*_):
    global fired
    fired += 1
    raise Interrupt
signal.signal(signal.SIGALRM, interrupt)
begun = time.perf_counter()
for _ in range(100):
    once()
usual, caught = (time.perf_counter() - begun) / 100, 0
for _ in range(3000):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1.5 * usual))
            once()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        caught += 1
print(caught, fired)
sys.stdin.readline()
"""
    running = program(BEGIN + text, server.url, key)
    caught, fired = map(int, running.line().split())
    # Python ignores exceptions in `__del__`, so nothing of dlock may have one.
    assert caught == fired > 100
    server.until_free(key)
    running.tell()
    running.end()


@pytest.mark.parametrize("size", [64, 256, 1024])
def test_a_thread_with_a_small_stack_acquires_and_waits(
    server: Server, client: dlock.Client, key: str, program: Start, size: int
) -> None:
    text = """
def work():
    client.lock(key + ":free").try_acquire().release()
    with client.lock(key):
        print("held")
threading.stack_size(int(sys.argv[3]) * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    with client.lock(key):
        running = program(BEGIN + text, server.url, key, str(size))
        server.until_waiting(key, 1)
    assert running.line() == "held"
    running.end()


def test_debug_logs_each_step_and_no_token(
    client: dlock.Client, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="dlock"):
        with client.lock(key) as guard:
            token = guard._native.token
            other = threading.Thread(target=lambda: client.lock(key).acquire().release())
            other.start()
            waits = re.compile(r"waits for its turn .*waits_for=.*held")
            eventually("what a wait waits for", lambda: waits.search(caplog.text) is not None)
        other.join()
        eventually("it is told", lambda: f"fence={guard.fence} why=" in caplog.text)
    assert token[:6] not in caplog.text


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_greenlets_run_while_one_waits(server: Server, key: str, program: Start, library: str) -> None:
    begin = {
        "gevent": "from gevent import monkey; monkey.patch_all(); import gevent; spawn = gevent.spawn",
        "eventlet": "import eventlet; eventlet.monkey_patch(); spawn = eventlet.spawn",
    }
    text = """
# Enough that the numbers of the next are too large for `select`.
import resource
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
open_files = [os.dup(1) for _ in range(1024)]
turns = []
def work(number):
    with client.lock(key, wait=600):
        turns.append(number)
        time.sleep(0.001)
guard = client.lock(key).try_acquire()
greenlets = [spawn(work, number) for number in range(50)]
time.sleep(0.01)
assert turns == []
guard.extend(60)
guard.release()
while len(turns) < 50:
    time.sleep(0.001)
assert sorted(turns) == list(range(50))
client.close()
"""
    program(begin[library] + "\n" + BEGIN + text, server.url, key).end()
    server.until_free(key)


@pytest.mark.parametrize("forks", [False, True])
def test_greenlets_run_while_one_waits_for_a_lock_from_before_the_patches(
    server: Server, key: str, program: Start, forks: bool
) -> None:
    # A preloading server makes the lock, forks, and applies the patches in the child.
    text = """
lock = client.lock(key, wait=600)
pid = 0
if sys.argv[3] == "True":
    pid = os.fork()
if pid == 0:
    from gevent import monkey; monkey.patch_all()
    import gevent
    def work():
        with lock.acquire():
            gevent.sleep(0.05)
    gevent.joinall([gevent.spawn(work) for _ in range(2)], raise_error=True)
else:
    assert os.waitpid(pid, 0)[1] == 0
"""
    assert not program(BEGIN + text, server.url, key, str(forks)).end()


def test_a_hooks_thread_that_was_killed_is_replaced(server: Server, key: str, program: Start) -> None:
    text = (
        """
from gevent import monkey; monkey.patch_all(); import gevent
import gc
"""
        + BEGIN
        + """
def lose(name):
    heard = []
    guard = client.lock(key + name, max_hold=0.05).acquire()
    guard.on_lost(heard.append)
    while not heard:
        time.sleep(0.01)
lose("first")
gevent.killall([one for one in gc.get_objects() if isinstance(one, gevent.Greenlet)])
lose("second")
"""
    )
    program(text, server.url, key).end()


def test_a_greenlet_that_is_killed_leaves_nothing(server: Server, key: str, program: Start) -> None:
    text = (
        """
from gevent import monkey; monkey.patch_all(); import gevent
"""
        + BEGIN
        + """
guard = client.lock(key).try_acquire()
greenlet = gevent.spawn(client.lock(key, ttl=600).acquire)
try:
    with gevent.Timeout(0.05):
        client.lock(key, ttl=600).acquire()
except gevent.Timeout:
    print("timed out")
greenlet.kill()
guard.release()
# The thread is busy while a grant arrives.
killed = gevent.spawn(client.lock(key, ttl=600).acquire)
gevent.sleep(0); gevent.sleep(0)
monkey.get_original("time", "sleep")(0.3)
killed.kill()
while client.inspect(key)[0].lock is not None:
    gevent.sleep(0.01)
"""
    )
    running = program(text, server.url, key)
    assert running.line() == "timed out"
    running.end()
    assert server.is_free(key)


def test_importing_the_package_starts_nothing() -> None:
    text = "import os, dlock, dlock.asyncio; print(len(os.listdir('/proc/self/task')))"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert said.stdout == "1\n"


def test_a_crowd_with_few_open_files_does_not_wait_for_polls(
    own_servers: Callable[..., Server], key: str, program: Start
) -> None:
    # Waiters that poll twice a second would need longer than a minute.
    servers = [own_servers() for _ in range(3)]
    text = """
import asyncio, resource
import dlock.asyncio
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
async def main():
    async with dlock.asyncio.Client(url, node_timeout=60) as client:
        async def work():
            async with client.lock(key, wait=60):
                pass
        await asyncio.gather(*(work() for _ in range(200)))
asyncio.run(main())
"""
    program(BEGIN + text, ",".join(server.url for server in servers), key).end()


def test_a_program_that_starts_beside_a_hung_node_soon_asks_the_others_first(
    own_servers: Callable[..., Server], key: str, program: Start
) -> None:
    servers = sorted((own_servers() for _ in range(3)), key=lambda server: server.url)
    # Waiters queue at the first node that answers.
    servers[0].pause()
    text = """
import asyncio
import dlock.asyncio
client = dlock.asyncio.Client(url, node_timeout=3)
async def is_quick():
    for turn in range(8):
        begun = time.monotonic()
        async with client.lock(key):
            took = time.monotonic() - begun
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)
        # The first requests cannot know.
        if turn > 1 and took < 1.5:
            return True
async def main():
    return await asyncio.gather(*(is_quick() for _ in range(5)))
assert any(asyncio.run(main()))
"""
    program(BEGIN + text, ",".join(server.url for server in servers), key).end()
