"""The library for asyncio.

::

    client = dlock.asyncio.Client("redis://localhost")
    async with client.lock("job:42", wait=10) as guard:
        await work(guard.fence)

If the lock is lost, dlock cancels the block and raises ``LostError`` at its end.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import sys
import weakref
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from . import _hooks, _native, _options
from ._client import BaseClient
from ._errors import Error, LostError, UsageError
from ._guard import BaseGuard
from ._options import LockOptions, Seconds, logger
from ._own import Own
from ._report import Key, Lease, NodeInspection

if sys.version_info < (3, 11):
    raise ImportError(
        "dlock.asyncio needs Python 3.11: before that a cancellation by a lost lock looks like any other"
    )

if TYPE_CHECKING or sys.version_info >= (3, 11):
    from typing import Unpack

__all__ = ["Client", "Guard", "Lock"]

F = TypeVar("F", bound=Callable[..., Awaitable[object]])
T = TypeVar("T")

_OF_LOCK: Any = object()
"""The lock's own limit."""


class Client(BaseClient):
    """Like ``dlock.Client``, with the same addresses and options. Several event loops can use it, one after the
    other or at the same time."""

    def lock(self, key: Key, **options: Unpack[LockOptions]) -> Lock:
        """Returns a lock, for an ``async with`` block, or to decorate a coroutine function. The options are
        those of ``dlock.Client.lock``."""
        return Lock(self._lock(key, options), self)

    async def extend(self, key: Key, token: str, ttl: Seconds, *, fence: int) -> Lease:
        """Like ``dlock.Client.extend``."""
        return cast(Lease, await _run(self._used().extend, key, token, ttl, fence))

    async def release(self, key: Key, token: str) -> bool:
        """Like ``dlock.Client.release``. The lock is released even if this is cancelled while it waits."""
        return cast(bool, await _run(self._used().release, key, token))

    async def inspect(self, key: Key) -> tuple[NodeInspection, ...]:
        """Like ``dlock.Client.inspect``."""
        return cast("tuple[NodeInspection, ...]", await _run(self._used().inspect, key))

    async def close(self) -> None:
        """Waits until releases in the background are done, for one node time-out at most, and closes the
        idle connections. Guards stay valid, and the client can still be used."""
        await _run(self._native.close)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Lock(Own):
    """A lock and its options. It can be acquired any number of times, by any task, and can begin one block
    itself: ``async with client.lock(…)``. It is not reentrant: a task that holds the lock and acquires it again
    waits for itself."""

    __slots__ = ("_block", "_client", "_entered", "_native")

    def __init__(self, native: _native.Lock, client: Client) -> None:
        self._native = native
        # The client passes on its notices while a lock or a guard refers to it.
        self._client = client
        self._entered = False
        self._block: Guard | None = None

    async def acquire(self, *, wait: Seconds | None = _OF_LOCK) -> Guard:
        """Acquires the lock; ``wait`` replaces the lock's own. Raises HeldError when that time is over. A
        cancellation leaves nothing behind on any node. Keep the returned guard: without a reference it
        releases the lock at once."""
        _hooks.follow()
        own = () if wait is _OF_LOCK else (wait,)
        return Guard(await _run(self._native.acquire, *own), self._client)

    async def try_acquire(self) -> Guard | None:
        """Acquires the lock if it is free."""
        _hooks.follow()
        guard = await _run(self._native.try_acquire)
        return None if guard is None else Guard(guard, self._client)

    async def run_once(self, window: Seconds, work: Callable[[Guard], Awaitable[T]]) -> T:
        """Like ``dlock.Lock.run_once``, with a coroutine function."""
        self._native.check_once(window)
        async with await self.acquire() as guard:
            result = await _ended(work(guard))
            await guard.done(window)
        return result

    def __repr__(self) -> str:
        return f"<dlock.asyncio.Lock {self._native.key!r}>"

    async def __aenter__(self) -> Guard:
        if self._entered:
            # It cannot tell its blocks apart when they end: in another task, or when a task is collected.
            raise UsageError(
                "this lock has begun its one block: use `async with await lock.acquire() as guard`,"
                " as often as you like"
            )
        self._entered = True
        try:
            self._block = await (await self.acquire()).__aenter__()
        except BaseException:
            self._entered = False
            raise
        return self._block

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block, self._block = self._block, None
        if block is None:
            raise RuntimeError("no block of this lock has begun")
        await block.__aexit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """Decorates a coroutine function: each call acquires the lock, and holds it until the function
        has returned."""
        _options.check_function(function)

        @functools.wraps(function)
        async def locked(*args: object, **kwargs: object) -> object:
            async with await self.acquire():
                return await _ended(function(*args, **kwargs))

        return cast(F, locked)


async def _ended(result: Awaitable[T]) -> T:
    """Awaits the work of a coroutine function. A plain function has done its work already."""
    return _options.ended(await result if inspect.isawaitable(result) else cast(T, result))


class Guard(BaseGuard):
    """Like ``dlock.Guard``. Used by ``async with``, it cancels the block when the lock is lost."""

    __slots__ = ("__weakref__", "_cancelling", "_client", "_loss", "_native", "_task", "_watch")

    def __init__(self, native: _native.Guard, client: Client) -> None:
        self._native = native
        self._client = client
        # Weak, because a lock keeps the guards of its blocks, and would keep their tasks for ever.
        self._task: weakref.ref[asyncio.Task[object]] | None = None
        self._cancelling = 0
        self._loss: Error | None = None
        self._watch: Callable[[], None] | None = None

    async def extend(self, ttl: Seconds) -> None:
        """Like ``dlock.Guard.extend``."""
        await _run(self._native.extend, ttl)

    async def done(self, window: Seconds, outcome: str = "") -> None:
        """Like ``dlock.Guard.done``. The lock is left done even if this is cancelled while it waits."""
        await _run(self._native.done, window, outcome)

    async def release(self) -> None:
        """Like ``dlock.Guard.release``. The lock is released even if this is cancelled while it waits."""
        self._unwatch()
        await _run(self._native.release)

    async def detach(self) -> Lease:
        """Like ``dlock.Guard.detach``. The lock is handed over even if this is cancelled while it waits."""
        self._unwatch()
        return cast(Lease, await _run(self._native.detach))

    async def lost(self) -> LostError:
        """Waits until the lock is lost or released, and returns the reason."""
        try:
            await _run(self._native.watch)
        except LostError as loss:
            return loss
        raise AssertionError("a watch ends with a loss")

    def _is_in_its_task(self) -> bool:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return False  # no event loop runs
        return task is not None and self._task is not None and self._task() is task

    async def __aenter__(self) -> Guard:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("`async with` needs a task, which is cancelled if the lock is lost")
        try:
            self.check()
        except Error:
            self._native.drop()
            raise
        self._task = weakref.ref(task)
        self._cancelling = task.cancelling()
        self._watch = _current().expect(self._native.watch, self._on_loss)
        return self

    def _on_loss(self, loss: object) -> None:
        task = None if self._task is None else self._task()
        is_done = isinstance(loss, LostError) and loss.why == "done"
        if task is not None and self._watch is not None and not is_done:
            self._watch = None
            self._loss = cast(Error, loss)
            task.cancel(f"{loss}")

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch()
            self._watch = None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unwatch()
        if kind is GeneratorExit and not self._is_in_its_task():
            # The rest of a task is collected, and cannot wait.
            self._native.drop()
            return
        task, self._task = None if self._task is None else self._task(), None
        loss = self._loss
        # Of several cancellations, only this guard's is taken back.
        is_ours = loss is not None and task is not None and task.uncancel() <= self._cancelling
        if loss is not None:
            self._native.drop()
        elif self._native.is_open() or self._native.is_inherited():
            try:
                await self.release()
            except LostError as lost:
                loss = lost
        if loss is None:
            return
        if error is None or (is_ours and isinstance(error, asyncio.CancelledError)):
            raise loss from error
        # The block's own exception is more specific.
        logger.warning("%s", loss)


class _Outcomes:
    """The outcomes that tasks of one event loop wait for. It has no reference to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = weakref.ref(loop)
        self._queue = _native.OutcomeQueue()
        self._expected: dict[int, Callable[[object], None]] = {}
        self._numbers = itertools.count()
        loop.add_reader(self._queue.fileno(), self._collect)

    def _collect(self) -> None:
        self._hand_out(self._queue.collect()[::-1])

    def _hand_out(self, arrived: list[tuple[int, object]]) -> None:
        try:
            while arrived:
                # A task may go on meanwhile, so no reference to its outcome stays here.
                self._expected.pop(arrived[-1][0], _release)(arrived.pop()[1])
        except BaseException:
            # A task may end the loop. The others get their outcomes if the loop goes on.
            asyncio.get_running_loop().call_soon(self._hand_out, arrived)
            raise

    def expect(
        self,
        begin: Callable[[_native.ReplyTo], _native.Task],
        then: Callable[[object], None],
    ) -> Callable[[], None]:
        """Begins work, and calls this with its outcome. The returned function cancels the work."""
        number = next(self._numbers)
        task = begin((self._queue, number))
        self._expected[number] = then
        return functools.partial(self._give_up, number, task)

    def _give_up(self, number: int, task: _native.Task) -> None:
        self._expected.pop(number, None)
        task.cancel()

    async def run(self, begin: Callable[..., _native.Task], *how: object) -> Any:
        """Begins work, and waits for its outcome. An exception that interrupts the wait cancels the work."""
        wait = _Wait(asyncio.get_running_loop())
        number = next(self._numbers)
        task = begin((self._queue, number), *how)
        self._expected[number] = wait.end
        try:
            return await wait
        except BaseException:
            self._give_up(number, task)
            raise


class _Wait:
    """A future for one task, which resumes the task as soon as the outcome arrives, and not in the loop's next
    iteration: an iteration takes half as long as the trip to another thread and back."""

    __slots__ = ("_asyncio_future_blocking", "_context", "_loop", "_outcome", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._outcome: object = _PENDING

    def end(self, outcome: object) -> None:
        """Ends the wait with this outcome."""
        if self._outcome is _PENDING:
            self._outcome = outcome
            del outcome
            self._context.run(self._wake, self)
        else:
            _release(outcome)

    # The methods of a future that asyncio's tasks use.

    def __await__(self) -> Generator[_Wait, None, object]:
        self._asyncio_future_blocking = True
        yield self
        # From now on only the task refers to it.
        outcome, self._outcome = self.result(), None
        return outcome

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, wake: Callable[[_Wait], object], *, context: Context) -> None:
        self._wake, self._context = wake, context

    def cancel(self, msg: object = None) -> bool:
        if self._outcome is not _PENDING:
            return False
        self._outcome = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self._loop.call_soon(self._wake, self, context=self._context)
        return True

    def result(self) -> object:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


_PENDING = object()


def _release(outcome: object) -> None:
    if isinstance(outcome, _native.Guard):
        outcome.drop()


# An event loop keeps its outcomes until it is closed. After that a task that waits for one can be collected.
_known: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_Outcomes]] = (
    weakref.WeakKeyDictionary()
)
_last: weakref.ref[_Outcomes] | None = None


def _current() -> _Outcomes:
    """Returns the outcomes of the running event loop."""
    global _last
    loop = asyncio.get_running_loop()
    # Most programs have one event loop, and to look it up takes as long as to wake it.
    outcomes = None if _last is None else _last()
    if outcomes is None or outcomes.loop() is not loop:
        known = _known.get(loop)
        outcomes = None if known is None else known()
        if outcomes is None:
            outcomes = _Outcomes(loop)
        _known[loop] = _last = weakref.ref(outcomes)
    return outcomes


def _run(begin: Callable[..., _native.Task], *how: object) -> Awaitable[Any]:
    """Begins work, and waits for its outcome."""
    return _current().run(begin, *how)
