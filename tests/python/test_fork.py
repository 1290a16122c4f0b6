"""Fork: a child is not the holder, and has connections of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dlock
from conftest import Program
from server import LEASE, Server, eventually

Start = Callable[..., Program]

BEGIN = """
import gc, os, sys, signal, time, warnings
import dlock
url, key = sys.argv[1:3]
client = dlock.Client(url, node_timeout=60)

def in_child(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            print("child:", repr(error), flush=True)
        finally:
            os._exit(code)
    return pid

def code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def test_a_child_does_not_release_the_lock_of_its_parent(server: Server, key: str, program: Start) -> None:
    text = """
guard = client.lock(key).acquire()
def child():
    global guard
    warnings.simplefilter("error")
    assert not guard.is_valid
    for use in (guard.check, guard.release, lambda: guard.extend(60)):
        try:
            use()
        except dlock.LostError as lost:
            assert lost.why == "forked", lost.why
        else:
            raise AssertionError(use)
    del guard
    gc.collect()
    dlock._native.release_all()
assert code(in_child(child)) == 0
print("waited")
sys.stdin.readline()
guard.check()
guard.release()
"""
    running = program(BEGIN + text, server.url, key)
    assert running.line() == "waited"
    assert not server.is_free(key)
    running.tell()
    running.end()
    assert server.is_free(key)


def test_a_client_from_before_the_fork_works_in_the_child(server: Server, key: str, program: Start) -> None:
    text = """
with client.lock(key) as first:
    pass
def child():
    with client.lock(key) as guard:
        assert guard.is_valid and guard.fence > first.fence
    # A child of the child, too.
    assert code(in_child(lambda: client.lock(key).acquire().release())) == 0
assert code(in_child(child)) == 0
with client.lock(key):
    pass
"""
    program(BEGIN + text, server.url, key).end()
    assert server.is_free(key)


def test_a_hook_from_before_the_import_may_use_a_client(server: Server, key: str, program: Start) -> None:
    # Python runs it when dlock has prepared the fork.
    text = (
        """
import os
hooks = []
os.register_at_fork(before=lambda: hooks.pop()())
"""
        + BEGIN
        + """
hooks.append(client.lock(key).acquire().release)
assert code(in_child(lambda: None)) == 0
"""
    )
    program(text, server.url, key).end()
    assert server.is_free(key)


def test_a_child_starts_nothing_before_it_uses_a_client(server: Server, key: str, program: Start) -> None:
    text = """
lock = client.lock(key)
def child():
    assert len(os.listdir("/proc/self/task")) == 1
    # A daemon closes everything, and opens files of its own.
    os.closerange(3, 4096)
    files = [os.memfd_create(str(number)) for number in range(12)]
    with lock:
        pass
    assert [os.fstat(file).st_size for file in files] == [0] * len(files)
assert code(in_child(child)) == 0
"""
    program(BEGIN + text, server.url, key).end()


@pytest.mark.parametrize("patches", ["", "from gevent import monkey; monkey.patch_all()"])
def test_a_child_logs_and_gets_notices_of_a_client_from_before_the_fork(
    own_servers: Callable[..., Server], key: str, program: Start, patches: str
) -> None:
    server = own_servers()
    text = """
import logging, select
logging.basicConfig(level=logging.WARNING, format="%(process)d %(message)s", stream=sys.stdout)
# One write: print makes several, and the thread of the log may write between them.
notify = lambda notice: sys.stdout.write(f"{os.getpid()} {notice.event}\\n")
client = dlock.Client(url, node_timeout=60, notify=notify)
lock = client.lock(key)
with lock:
    pass
def child():
    print("child", os.getpid())
    guard = lock.acquire()
    print("held")
    sys.stdin.readline()
    guard.release()
    select.select([sys.stdin], [], [])
assert code(in_child(child)) == 0
"""
    running = program(patches + BEGIN + text, server.url, key)
    child = running.line().split()[1]
    assert running.line() == "held"
    server.run("CONFIG", "SET", "min-replicas-to-write", 1)
    running.tell()
    # The line in the log has a second line about the node.
    said = [running.line() for _ in range(3)]
    assert f"{child} not_released" in said
    assert any(line.startswith(f"{child} lock '{key}'") for line in said), said
    running.tell()
    running.end_badly()


def test_forks_of_several_threads_at_the_same_time_do_not_hold_up_the_renewal(
    server: Server, key: str, program: Start
) -> None:
    slow = "import os, time\nos.register_at_fork(before=lambda: time.sleep(0.05))"
    text = """
import threading
guard = client.lock(key, ttl=float(sys.argv[3])).acquire()

def fork():
    assert code(in_child(lambda: None)) == 0

threads = [threading.Thread(target=fork) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
guard.check()
guard.release()
"""
    program(slow + BEGIN + text, server.url, key, str(LEASE)).end()


def test_a_lock_is_renewed_by_the_parent_alone(server: Server, key: str, program: Start) -> None:
    text = """
guard = client.lock(key, ttl=float(sys.argv[3])).acquire()
print(in_child(lambda: time.sleep(600)))
sys.stdin.readline()
"""
    running = program(BEGIN + text, server.url, key, str(LEASE))
    child = int(running.line())
    try:
        eventually("it was renewed", lambda: _renewals(server, key) >= 1)
        running.process.kill()
        server.until_free(key)
    finally:
        os.kill(child, signal.SIGKILL)
    running.end(-9)


def test_parent_and_children_make_tokens_of_their_own(server: Server, key: str, program: Start) -> None:
    # A fork copies the source of random numbers of the thread that forks.
    text = """
tell, hear = os.pipe()[::-1]
def take():
    for _ in range(20):
        with client.lock(f"{key}:{os.getpid()}") as guard:
            os.write(tell, guard._native.token.encode() + b"\\n")
take()
children = [in_child(take) for _ in range(4)]
take()
assert [code(child) for child in children] == [0] * 4
os.close(tell)
tokens = open(hear).read().split()
assert len(set(tokens)) == len(tokens) == 120, tokens
"""
    program(BEGIN + text, server.url, key).end()


_seen: dict[str, tuple[int, int]] = {}


def _renewals(server: Server, key: str) -> int:
    """The number of times that the lease was seen to grow."""
    inspection = server.inspect(key)
    assert inspection is not None
    holders = inspection[b"holders"]
    assert isinstance(holders, list)
    left = int(dict(zip(holders[0][::2], holders[0][1::2]))[b"ttl-ms"])
    before, count = _seen.get(key, (left, 0))
    _seen[key] = (left, count + (left > before))
    return _seen[key][1]


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing(server: Server, key: str, program: Start, method: str) -> None:
    text = """
import multiprocessing
import dlock_test_work
context = multiprocessing.get_context(sys.argv[3])
client.lock(key).try_acquire().release()
with context.Pool(4) as pool:
    fences = pool.starmap(dlock_test_work.work, [(url, key)] * 8)
assert len(set(fences)) == 8, fences
"""
    program(BEGIN + text, server.url, key, method).end()
    server.until_free(key)


def test_a_child_of_a_process_whose_threads_use_dlock_for_the_first_time_does_not_hang(
    server: Server, key: str, program: Start
) -> None:
    text = """
import threading
guard = dlock.Client(url).lock(key).acquire()
sys.setswitchinterval(1e-6)
def use():
    client.inspect(key)
    try:
        with client.lock(key, wait=0):
            raise AssertionError("it is held")
    except dlock.HeldError:
        pass
    with client.lock(f"{key}:{os.getpid()}:{threading.get_ident()}"):
        pass
for _ in range(8):
    threading.Thread(target=use, daemon=True).start()
children = [in_child(use) for _ in range(30)]
assert not any(map(code, children))
"""
    # One in a few would hang.
    for _ in range(8):
        program(BEGIN + text, server.url, key).end()


def test_a_subinterpreter_is_refused_and_its_end_releases_nothing(
    server: Server, key: str, program: Start
) -> None:
    text = """
try:
    import _interpreters as interpreters
    other = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    other = interpreters.create(isolated=False)
guard = client.lock(key).acquire()
script = '''
import sys
sys.path = %r
try:
    import dlock
except ImportError as error:
    assert "this is a subinterpreter" in str(error), error
else:
    raise AssertionError("it was imported")
''' % sys.path
assert interpreters.run_string(other, script) is None
interpreters.destroy(other)
guard.check()
guard.release()
"""
    program(BEGIN + text, server.url, key).end()


HANGS = """
#include <netdb.h>
#include <unistd.h>
int getaddrinfo(const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    sleep(60);
    return EAI_AGAIN;
}
"""


def test_a_fork_waits_for_no_lookup_that_hangs(
    server: Server, key: str, program: Start, tmp_path: Path
) -> None:
    library = tmp_path / "hangs.so"
    (tmp_path / "hangs.c").write_text(HANGS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "hangs.c"], check=True)
    text = """
several = dlock.Client([url, "redis://named:1"], node_timeout=60)
try:
    several.lock(key, ttl=2).acquire(wait=0)
except dlock.NoQuorumError:
    pass
guard = client.lock(f"{key}:held").acquire()
begun = time.monotonic()
def child():
    client.lock(f"{key}:child").acquire().release()
assert code(in_child(child)) == 0
# As long as the runtime may stand still for a fork.
assert time.monotonic() - begun < 5
guard.release()
os._exit(0)
"""
    python = ["env", f"LD_PRELOAD={library}", sys.executable]
    program(BEGIN + text, server.url, key, python=python).end()


def test_free_threaded_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sysconfig

    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1)
    with pytest.raises(ImportError, match="free-threaded"):
        importlib.reload(dlock)


def test_a_client_starts_the_threads_that_pass_on_its_log_with_its_first_use(
    server: Server, key: str, program: Start
) -> None:
    text = """
import logging, os, sys
import dlock
logging.basicConfig(level=logging.DEBUG)
def tasks():
    return len(os.listdir("/proc/self/task"))
begun = tasks()
client = dlock.Client(sys.argv[1], node_timeout=60)
# A server may import the program and fork, before threads that are about to start have begun.
assert tasks() <= begun + 1, "the runtime, perhaps, and no more"
client.inspect(sys.argv[2])
"""
    assert ":dlock:" in program(text, server.url, key).end()
