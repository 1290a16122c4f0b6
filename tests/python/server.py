"""A server with the module, on a free port of the loopback, in a folder of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import redis

TOP = Path(__file__).resolve().parents[2]
# Tests that need only one run with the first.
KINDS = ["redis-8.2", "redis-7.0", "valkey-8.1", "valkey-9.1"]
PATIENCE = 60.0
"""Tests wait this many seconds for an event that must happen, on a machine that may be busy."""

LEASE = 9.0
"""A lease that is renewed in time on such a machine, and yet ends while a test waits."""

_ports = itertools.count()
_blocks: list[int] = []


def module() -> Path:
    """The module, which `make build` leaves."""
    path = Path(os.environ.get("DLOCK_MODULE", TOP / "target/release/libdlock.so"))
    assert path.is_file(), f"{path} is missing: run `make build`"
    return path


def eventually(what: str, check: Callable[[], object]) -> None:
    """Waits until it is so."""
    until = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < until, f"not within {PATIENCE} s: {what}"
        time.sleep(0.005)


class Server:
    """A running server. Its process ends with `stop`."""

    def __init__(self, kind: str, *options: str) -> None:
        self.kind = kind
        self._options = options
        # In memory, where there is room: a node that waits long for its disk refuses to grant.
        fast = Path("/dev/shm")
        self.folder = tempfile.mkdtemp(prefix="dlock-test-", dir=fast if fast.is_dir() else None)
        self.port = 0
        self.start()

    def start(self) -> None:
        """Starts it, on the port that it had before or on a free one."""
        for _ in range(50):
            port = self.port or free_port()
            self.process = subprocess.Popen(self._command(port), stdout=subprocess.DEVNULL)
            if self._answers(port):
                self.port = port
                return
            # Another process has taken the port.
            self._end()
        raise AssertionError(f"{self.kind} does not start: {self.log()}")

    def _command(self, port: int) -> list[str]:
        executable = TOP / ".servers" / self.kind
        assert executable.exists(), f"{executable} is missing: run `make setup`"
        fixed = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", self.folder]
        log = ["--logfile", f"{self.folder}/log", "--enable-debug-command", "yes"]
        command = [str(executable), "--port", str(port), *fixed, *log, *self._options]
        return [*command, "--loadmodule", str(module()), "--dlock.newborn-quarantine", "0"]

    def _answers(self, port: int) -> bool:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with redis.Redis(port=port, protocol=2) as client:
                    if client.info("server")["process_id"] == self.process.pid:
                        return True
            except redis.RedisError:
                pass
            time.sleep(0.01)
        return False

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}"

    def redis(self, **options: object) -> redis.Redis:
        """A client of redis-py."""
        return redis.Redis(port=self.port, protocol=2, **options)  # type: ignore[arg-type]

    def run(self, *words: object) -> object:
        """Runs a command."""
        with self.redis() as client:
            return client.execute_command(*words)

    def inspect(self, key: str | bytes) -> dict[bytes, object] | None:
        """The fields of DLOCK.INSPECT; None if the lock is free."""
        reply = self.run("DLOCK.INSPECT", key)
        if reply is None:
            return None
        assert isinstance(reply, list)
        return dict(zip(reply[::2], reply[1::2]))

    def is_free(self, key: str | bytes) -> bool:
        """True if the lock has no holder and no waiter."""
        return self.inspect(key) is None

    def fence(self, key: str | bytes) -> int | None:
        """The fence of the first holder."""
        inspection = self.inspect(key)
        if inspection is None:
            return None
        holders = inspection[b"holders"]
        assert isinstance(holders, list)
        if not holders:
            return None
        fields = dict(zip(holders[0][::2], holders[0][1::2]))
        return int(fields[b"fence"])

    def holders(self, key: str | bytes) -> int:
        """The number of holders."""
        inspection = self.inspect(key)
        holders = [] if inspection is None else inspection[b"holders"]
        assert isinstance(holders, list)
        return len(holders)

    def waiting(self, key: str | bytes) -> int:
        """The number of waiters."""
        inspection = self.inspect(key)
        return 0 if inspection is None else int(str(inspection[b"waiting"]))

    def until_free(self, key: str | bytes) -> None:
        """Waits until the lock has no holder and no waiter."""
        eventually(f"{key!r} is free", lambda: self.is_free(key))

    def until_waiting(self, key: str | bytes, count: int) -> None:
        """Returns once this many wait."""
        eventually(f"{count} wait for {key!r}", lambda: self.waiting(key) == count)

    def log(self) -> str:
        """The content of its log."""
        file = Path(self.folder, "log")
        return file.read_text(errors="replace") if file.exists() else ""

    def pause(self) -> None:
        """Pauses it at once."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kills it, as a crash would."""
        self._end()

    def _end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ends it, and removes its folder."""
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    """A free port."""
    for _ in range(10_000):
        port = _next_port()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


def _next_port() -> int:
    # As tests/harness/servers/ports.rs: the process that listens on the first port of a block has the block.
    place, step = divmod(next(_ports), 49)
    if place == len(_blocks):
        _blocks.append(_another_block())
    return _blocks[place] + 1 + step


def _another_block() -> int:
    for step in range(200):
        first = 11_000 + (os.getpid() * 7 + step) % 200 * 50
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", first))
            listener.listen()
        except OSError:
            listener.close()
            continue
        # The socket listens as long as this process lives.
        listener.detach()
        return first
    raise AssertionError("other runs have all blocks of ports")
