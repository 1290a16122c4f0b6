"""A service on asyncio: of several that run, one leads. If it ends or loses the lock, another takes over.

Run it: DLOCK_NODES=redis://localhost python service.py
"""

import asyncio
import os
import signal

import dlock
import dlock.asyncio


async def lead(guard: dlock.asyncio.Guard) -> None:
    """The leader's work."""
    while True:
        print("leads", guard.fence, flush=True)
        await asyncio.sleep(1)


async def main() -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    async with dlock.asyncio.Client() as client:
        while True:
            try:
                async with client.lock("leader", ttl=10, meta=f"process {os.getpid()}") as guard:
                    await lead(guard)
            except dlock.LostError as lost:
                print("leads no more:", lost, flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        print("ends", flush=True)
