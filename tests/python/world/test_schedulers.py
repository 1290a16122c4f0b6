"""The examples for schedulers, each with what it is for: docs/schedulers.md."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from conftest import EXAMPLES, PROGRAM, Start
from server import PATIENCE, Server, eventually

LATE = """
import datetime, sys
import apscheduler.schedulers.base as base

class Late(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=float(sys.argv[1]))

base.datetime = Late
import apscheduler_job
apscheduler_job.main(second="*")
"""
"""A host with a clock that is wrong by this many seconds, and a job for each second."""


def test_a_job_of_apscheduler_runs_once_on_hosts_whose_clocks_differ(server: Server, start: Start) -> None:
    hosts = [start("-c", LATE, offset, DISK=disk) for offset, disk in HOSTS]
    eventually("jobs were done", lambda: len(_done(server, "report@*")) >= FIRES)
    for host in hosts:
        host.send_signal(signal.SIGINT)
    said = [host.communicate(timeout=PATIENCE)[0].splitlines() for host in hosts]
    # A job that has begun goes on to its end.
    assert sum(map(len, said)) == len(_done(server, "report@*"))
    assert said[0] == []


HOSTS = [("1.4", "full"), ("0", ""), ("-0.7", "")]
"""The clock and the disk of each host: the first one comes first, and fails."""

FIRES = 6


def _done(server: Server, pattern: str) -> list[bytes]:
    """The keys that are done."""
    keys = list(server.redis().scan_iter(pattern, 1000))
    return [key for key in keys if (lock := server.inspect(key)) is not None and lock[b"mode"] == b"done"]


def test_of_two_celery_beats_one_works_and_the_other_takes_over(
    server: Server, start: Start, tmp_path: Path
) -> None:
    def beat(name: str) -> subprocess.Popen[str]:
        celery = [
            sys.executable,
            "-m",
            "celery",
            "--app",
            "celery_task",
            "beat",
            "--schedule",
            f"{tmp_path}/{name}",
        ]
        return start(PROGRAM, "run", "--ttl", "2s", "beat", "--", *celery, EVERY="0.05")

    def tasks() -> int:
        count = server.run("LLEN", "celery")
        assert isinstance(count, int)
        return count

    first = beat("first")
    eventually("the first beats", lambda: tasks() >= 3)
    beat("second")
    server.until_waiting("beat", 1)
    (celery,) = _children(first.pid)
    first.kill()
    eventually("the other has the lock", lambda: not server.waiting("beat") and server.fence("beat"))
    eventually("the first celery has ended", lambda: not Path(f"/proc/{celery}/cmdline").exists())
    before = tasks()
    eventually("the second beats", lambda: tasks() >= before + 3)


def _children(pid: int) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text().split()]


def test_replicas_of_django_migrate_one_after_the_other(server: Server, start: Start, tmp_path: Path) -> None:
    (tmp_path / "books/migrations").mkdir(parents=True)
    (tmp_path / "settings.py").write_text(SETTINGS.format(folder=tmp_path))
    (tmp_path / "books/migrations/0001_initial.py").write_text(MIGRATION)
    for package in ("books", "books/migrations"):
        (tmp_path / package / "__init__.py").touch()
    replicas = [start("-m", "django", "migrate", DJANGO_SETTINGS_MODULE="settings") for _ in range(4)]
    assert [replica.wait(PATIENCE) for replica in replicas] == [0] * 4
    assert (tmp_path / "ledger").read_text() == "migrates\n"

    hosts = [start("-m", "django", "nightly", DJANGO_SETTINGS_MODULE="settings") for _ in range(3)]
    said = sorted(host.communicate(timeout=PATIENCE)[0] for host in hosts)
    assert said[2] == "works\n"
    assert all(words.startswith("done already, and again in 43") for words in said[:2])


def test_replicas_with_alembic_migrate_one_after_the_other(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "alembic"
    (folder / "versions").mkdir(parents=True)
    shutil.copy(EXAMPLES / "alembic_env.py", folder / "env.py")
    (folder / "versions/one.py").write_text(REVISION)
    settings = tmp_path / "alembic.ini"
    database = f"sqlite:///{tmp_path}/database"
    settings.write_text(f"[alembic]\nscript_location = {folder}\nsqlalchemy.url = {database}\n")
    replicas = [start("-m", "alembic", "--config", str(settings), "upgrade", "head") for _ in range(4)]
    assert [replica.wait(PATIENCE) for replica in replicas] == [0] * 4
    assert (tmp_path / "ledger").read_text() == "migrates\n"


SLOW = """
import os, time

def slow(*_):
    with open(os.environ["LEDGER"], "a") as ledger:
        print("migrates", file=ledger)
    time.sleep(0.5)
"""
"""A migration that takes its time, so that replicas meet in it."""

SETTINGS = """
SECRET_KEY = "for a test"
INSTALLED_APPS = ["django_jobs", "books"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "{folder}/database"}}}}
"""

MIGRATION = (
    SLOW
    + """
from django.db import migrations

class Migration(migrations.Migration):
    initial = True
    operations = [migrations.RunPython(slow)]
"""
)

REVISION = (
    SLOW
    + """
revision = "1"
down_revision = None
upgrade = slow
"""
)
