"""Figures of the library for Python, beside what they are to be compared with: scripts/python.sh bench

Everything of a line is measured in turns, so that all see the same machine: compare within a line.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import redis

import dlock
import dlock.asyncio
from server import Server

KIND = os.environ.get("SERVER", "redis-8.2")
TURNS = 5
ROUNDS = 1_000
GUARDS = 10_000
SECONDS = 3.0
"""A contention is measured this long, in seconds."""


def median(rounds: list[float]) -> float:
    """The median of times in seconds, in µs."""
    return statistics.median(rounds) * 1e6


def pair(client: dlock.Client) -> float:
    """A free lock is taken and given back, in a thread."""
    times = []
    for turn in range(ROUNDS):
        since = time.perf_counter()
        guard = client.lock(f"pair:{turn}").try_acquire()
        assert guard is not None
        guard.release()
        times.append(time.perf_counter() - since)
    return median(times)


def theirs(client: redis.Redis) -> float:
    """The same with redis-py's lock."""
    times = []
    for turn in range(ROUNDS):
        since = time.perf_counter()
        lock = client.lock(f"pair:{turn}", timeout=30)
        assert lock.acquire(blocking=False)
        lock.release()
        times.append(time.perf_counter() - since)
    return median(times)


async def awaited(act: Callable[[int], Awaitable[None]]) -> float:
    """The time of an awaited step, in µs."""
    times = []
    for turn in range(ROUNDS):
        since = time.perf_counter()
        await act(turn)
        times.append(time.perf_counter() - since)
    return median(times)


async def in_a_loop(server: Server) -> tuple[float, float]:
    """The pair in asyncio, and two bare trips to another thread and back."""
    client = dlock.asyncio.Client(server.url)

    async def taken(turn: int) -> None:
        guard = await client.lock(f"pair:{turn}").try_acquire()
        assert guard is not None
        await guard.release()

    loop = asyncio.get_running_loop()
    wanted: list[asyncio.Future[None]] = []
    asked = threading.Semaphore(0)

    def answer() -> None:
        while True:
            asked.acquire()
            if not wanted:
                return
            loop.call_soon_threadsafe(wanted.pop().set_result, None)

    async def trips(_: int) -> None:
        for _ in range(2):
            future = loop.create_future()
            wanted.append(future)
            asked.release()
            await future

    thread = threading.Thread(target=answer)
    thread.start()
    took = await awaited(taken), await awaited(trips)
    asked.release()
    thread.join()
    await client.close()
    return took


def one_node(server: Server) -> None:
    """A free lock."""
    client = dlock.Client(server.url)
    series: dict[str, list[float]] = {}
    with server.redis() as other:
        for _ in range(TURNS):
            loop, trips = asyncio.run(in_a_loop(server))
            turn = {
                "threads": pair(client),
                "asyncio": loop,
                "redis-py's Lock": theirs(other),
                "asyncio: two bare trips to another thread": trips,
            }
            for name, took in turn.items():
                series.setdefault(name, []).append(took)
    show("a free lock, taken and given back, µs (p50)", series, 0)


def turns_in_threads(server: Server, clients: int, hold: float) -> float:
    """The time of a turn without its hold, in ms, where all want the same lock."""
    client = dlock.Client(server.url)
    holds: list[float] = []
    until = time.perf_counter() + SECONDS

    def work() -> None:
        while time.perf_counter() < until:
            with client.lock("contended"):
                since = time.perf_counter()
                time.sleep(hold)
                holds.append(time.perf_counter() - since)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    since = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - since
    client.close()
    return (took - sum(holds)) / len(holds) * 1e3


async def turns_in_a_loop(server: Server, clients: int, hold: float) -> float:
    """The same in asyncio."""
    client = dlock.asyncio.Client(server.url)
    holds: list[float] = []
    until = time.perf_counter() + SECONDS

    async def work() -> None:
        while time.perf_counter() < until:
            async with client.lock("contended"):
                since = time.perf_counter()
                await asyncio.sleep(hold)
                holds.append(time.perf_counter() - since)

    since = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    took = time.perf_counter() - since
    await client.close()
    return (took - sum(holds)) / len(holds) * 1e3


def contention(server: Server, clients: int, hold: float) -> None:
    """One lock that many want."""
    series: dict[str, list[float]] = {}
    for _ in range(TURNS):
        turn = {
            "threads": turns_in_threads(server, clients, hold),
            "asyncio": asyncio.run(turns_in_a_loop(server, clients, hold)),
        }
        for name, took in turn.items():
            series.setdefault(name, []).append(took)
    show(f"{clients} clients, each holds for {hold * 1e3:.0f} ms: turn without the hold, ms", series, 2)


def show(title: str, series: dict[str, list[float]], digits: int) -> None:
    """The middle of the turns, and all of them."""
    print(title)
    for name, turns in series.items():
        middle, each = statistics.median(turns), " ".join(f"{turn:.{digits}f}" for turn in turns)
        print(f"  {name:44}{middle:.{digits}f}   ({each})", flush=True)


def resident() -> int:
    """This process's memory, in KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def many_guards(server: Server) -> None:
    """Prints the cost of holding many locks."""
    client = dlock.Client(server.url)
    client.lock("warm").acquire().release()
    gc.collect()
    before = resident()
    guards = [client.lock(f"many:{n}").acquire() for n in range(GUARDS)]
    gc.collect()
    memory = (resident() - before) / GUARDS
    cpu, since = time.process_time(), time.perf_counter()
    time.sleep(30)
    part = (time.process_time() - cpu) / (time.perf_counter() - since) * 100
    count = sum(guard.is_valid for guard in guards)
    each = f"{memory:.1f} KiB each, {part:.1f} % of a processor"
    print(f"{GUARDS} guards, leases of 30 s: {each}; {count} are held after 30 s")
    for guard in guards:
        guard.release()


def main() -> None:
    """All of it."""
    server = Server(KIND)
    try:
        one_node(server)
        contention(server, 16, 0.005)
        contention(server, 100, 0.001)
        many_guards(server)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
