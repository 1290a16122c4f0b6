"""The examples of src/python/examples, with what they are for."""

from __future__ import annotations

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conftest import Start
from server import PATIENCE, Server, eventually


def test_a_wsgi_program_under_gunicorn_that_was_loaded_before_the_fork(
    server: Server, start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    options = ["--preload", "--workers", "4", "--bind", f"unix:{path}", "--worker-class", "sync"]
    start("-m", "gunicorn", *options, "wsgi:app")
    eventually("it listens", lambda: _listens(path))
    with ThreadPoolExecutor(8) as pool:
        # A worker that waits takes no other request, so each of these has one of its own.
        server.run("DLOCK.ACQUIRE", "report", "test", 600_000)
        waiting = [pool.submit(_get, path) for _ in range(4)]
        server.until_waiting("report", 4)
        server.run("DLOCK.RELEASE", "report", "test")
        first = [answer.result() for answer in waiting]
        answers = first + list(pool.map(lambda _: _get(path), range(200)))
    assert len({answer.split()[0] for answer in first}) == 4
    assert len({answer.split()[1] for answer in answers}) == 204
    server.until_free("report")


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


def _get(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(path))
        client.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        reply = b"".join(iter(lambda: client.recv(4096), b""))
    head, _, body = reply.decode().partition("\r\n\r\n")
    assert " 200 OK" in head.splitlines()[0], reply
    return body


def test_one_service_leads_and_another_takes_over(server: Server, start: Start) -> None:
    services = [start("service.py") for _ in range(3)]
    server.until_waiting("leader", 2)
    leader = str(_holder(server, "leader")[b"meta"])
    first = next(service for service in services if str(service.pid) in leader)
    assert first.stdout is not None
    assert first.stdout.readline().startswith("leads ")
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE) == 0
    server.until_waiting("leader", 1)
    assert str(first.pid) not in str(_holder(server, "leader")[b"meta"])


def _holder(server: Server, key: str) -> dict[bytes, object]:
    inspection = server.inspect(key)
    assert inspection is not None
    holders = inspection[b"holders"]
    assert isinstance(holders, list)
    return dict(zip(holders[0][::2], holders[0][1::2]))


def test_a_job_for_cron_runs_on_one_machine(server: Server, start: Start) -> None:
    first = start("cron.py")
    assert first.stdout is not None
    assert first.stdout.readline() == "runs\n"
    second = start("cron.py")
    server.until_waiting("nightly", 1)
    first.communicate("\n", timeout=PATIENCE)
    out, _ = second.communicate(timeout=PATIENCE)
    assert out == "done already\n"
    assert first.returncode == second.returncode == 0
