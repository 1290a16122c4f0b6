"""The examples of the pages run as they stand, and the pages name each option and exception."""

from __future__ import annotations

import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import dlock
import dlock.asyncio
from server import TOP, Server, free_port

SPANS = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(SPANS))
trace.set_tracer_provider(PROVIDER)

PAGES = [
    "README.md",
    "docs/any-client.md",
    "docs/leader-election.md",
    "docs/moving-over.md",
    "docs/python.md",
    "docs/semaphores.md",
    "src/python/README.md",
]


@pytest.fixture
def sentinel(server: Server, tmp_path: Path) -> Iterator[str]:
    """The address of a Sentinel that watches the server as mymaster."""
    port, file = free_port(), tmp_path / "sentinel.conf"
    watched = f"sentinel monitor mymaster 127.0.0.1 {server.port} 1"
    file.write_text(f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\nlogfile log\n{watched}\n")
    process = subprocess.Popen([TOP / ".servers" / server.kind, file, "--sentinel"])
    yield f"127.0.0.1:{port}"
    process.kill()
    process.wait()


def examples(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (TOP / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_as_they_stand(
    server: Server,
    page: str,
    sentinel: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DLOCK_NODES", server.url)
    found = examples(page)
    assert found
    SPANS.clear()
    for example in found:
        text = example.replace("redis://localhost", server.url)
        text = text.replace("redis.Redis(", f"redis.Redis(port={server.port}, ")
        text = text.replace("s1:26379,s2:26379,s3:26379", sentinel)
        exec(compile(text, page, "exec"), {})
    assert "held" in capsys.readouterr().out
    if "opentelemetry" in "".join(found):
        assert [span.name for span in SPANS.get_finished_spans()] == ["dlock acquire", "dlock hold"]


def test_the_first_example_has_five_lines() -> None:
    first = [line for line in examples("docs/python.md")[0].splitlines() if line]
    assert len(first) <= 5


def test_the_package_shows_the_same_example() -> None:
    assert dlock.__doc__ is not None
    for line in [
        'dlock.Client("redis://localhost")',
        'with client.lock("job:42", wait=10) as guard:',
    ]:
        assert line in dlock.__doc__
        assert line in (TOP / "docs/python.md").read_text()


def test_each_option_and_exception_is_on_the_page() -> None:
    page = (TOP / "docs/python.md").read_text()
    for option in dlock.LockOptions.__annotations__:
        assert f"`{option}`" in page, option
    for name in dlock.__all__:
        thing = getattr(dlock, name)
        if isinstance(thing, type) and issubclass(thing, dlock.Error):
            assert f"`{name}`" in page or f"`dlock.{name}`" in page, name


def test_everything_public_has_a_docstring() -> None:
    for module in (dlock, dlock.asyncio):
        assert module.__doc__
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isclass(thing):
                continue
            assert thing.__doc__, name
            for member, value in vars(thing).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert inspect.getdoc(value), f"{name}.{member}"


def test_the_wheel_has_stubs_and_licences() -> None:
    import importlib.metadata

    files = importlib.metadata.files("dlock-redis")
    assert files is not None
    names = {Path(file).name for file in files}
    assert {"py.typed", "_native.pyi", "LICENSE", "THIRD-PARTY.txt"} <= names
    told = next(file for file in files if file.name == "THIRD-PARTY.txt").read_text()
    for package in ("tokio ", "redis ", "rustls ", "ring ", "pyo3 "):
        assert f"\n{package}" in told, package
    assert "Permission is hereby granted" in told
