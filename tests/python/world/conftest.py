"""Servers for the examples, and the examples as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import contextlib

from server import TOP, Server

EXAMPLES = TOP / "src/python/examples"
PROGRAM = str(TOP / "target/release/dlock")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own."""
    server = Server("redis-8.2")
    yield server
    server.stop()


@pytest.fixture
def start(server: Server, tmp_path: Path) -> Iterator[Start]:
    """Starts a program among the examples; it and what it has started end with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*command: str, **more: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "DLOCK_NODES": server.url, "LEDGER": str(tmp_path / "ledger"), **more}
        process = subprocess.Popen(
            command if command[0] == PROGRAM else [sys.executable, *command],
            cwd=EXAMPLES,
            env={**environment, "PYTHONPATH": f"{EXAMPLES}:{tmp_path}", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
