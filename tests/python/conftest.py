"""Common parts of all tests of the Python library: servers, and clients of them.

The rules of locks, and the differences between servers, are tested in Rust.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dlock
from server import KINDS, PATIENCE, Server

_servers: dict[str, Server] = {}
_names = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    text = "every_server: a test of what depends on the server"
    config.addinivalue_line("markers", text)
    # nohup and the background of a script ignore Ctrl-C, and so would all children. Tests send it to some.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        is_marked = metafunc.definition.get_closest_marker("every_server")
        wanted = os.environ.get("SERVER")
        kinds = [kind for kind in (KINDS if is_marked else KINDS[:1]) if not wanted or kind == wanted]
        metafunc.parametrize("server", kinds, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = os.environ.get("DLOCK_TESTS", "").split()
    # Without its server a test is skipped: here it is not there.
    items[:] = [
        item
        for item in items
        if not item.get_closest_marker("skip") and (not wanted or any(text in item.nodeid for text in wanted))
    ]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # No test of this language may match the filters.
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and os.environ.get("DLOCK_TESTS"):
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """A server that tests share: each has keys of its own."""
    kind = str(request.param)
    if kind not in _servers:
        _servers[kind] = Server(kind)
    return _servers[kind]


@pytest.fixture(scope="session", autouse=True)
def _end_servers() -> Iterator[None]:
    yield
    for server in _servers.values():
        server.stop()


@pytest.fixture
def own_servers() -> Iterator[Callable[..., Server]]:
    """Makes servers that the test may stop; they end with it."""
    made: list[Server] = []

    def make(kind: str = KINDS[0], *options: str) -> Server:
        made.append(Server(kind, *options))
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def key() -> str:
    """A key that no other test has."""
    return f"key:{os.getpid()}:{next(_names)}"


@pytest.fixture
def client(server: Server) -> Iterator[dlock.Client]:
    """A client of the server."""
    with dlock.Client(server.url, node_timeout=PATIENCE) as client:
        yield client


class Program:
    """A Python program in a process of its own, which prints a line for each step."""

    def __init__(self, text: str, *arguments: str, python: list[str]) -> None:
        # A full pipe that is not read would block the program.
        self.errors = os.memfd_create("errors")
        self.process = subprocess.Popen(
            [*python, "-c", text, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(Path(__file__).parent)},
        )

    def line(self) -> str:
        """The next line of its output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended: {self.end_badly()}"
        return line.strip()

    def tell(self, line: str = "") -> None:
        """Writes a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self, code: int = 0) -> str:
        """Waits for its end, and returns its standard error."""
        out, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == code, (self.process.returncode, out, self.said())
        return self.said()

    def end_badly(self) -> str:
        """Kills it, and returns its output and standard error."""
        self.kill()
        return self.process.communicate()[0] + self.said()

    def kill(self) -> None:
        """Kills it and its children: a child would keep the pipes open."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def said(self) -> str:
        """Its standard error so far."""
        return Path(f"/proc/self/fd/{self.errors}").read_text()


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """Starts programs; they are ended with the test."""
    started: list[Program] = []

    def start(text: str, *arguments: str, python: list[str] | None = None) -> Program:
        started.append(Program(text, *arguments, python=python or [sys.executable]))
        return started[-1]

    yield start
    for program in started:
        program.kill()
        program.process.communicate()
        os.close(program.errors)
