"""The thread that calls the program's functions when an event arrives. Each process has its own."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable

from . import _green, _native
from ._options import logger
from ._report import Notice


class _Hooks:
    """The functions to call, and the thread that calls them."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.queue = _native.OutcomeQueue()
        self._expected: dict[int, Callable[[object], object]] = {}
        self._numbers = itertools.count()
        threading.Thread(target=self._serve, name="dlock-hooks", daemon=True).start()

    def expect(self, then: Callable[[object], object]) -> int:
        """Registers a function for all outcomes with the returned number, until ``forget``."""
        number = next(self._numbers)
        self._expected[number] = then
        return number

    def forget(self, number: int) -> None:
        self._expected.pop(number, None)

    def _serve(self) -> None:
        while True:
            _green.until_readable(self.queue.fileno())
            for number, outcome in _native.collect(self.queue):
                then = self._expected.get(number)
                if not isinstance(outcome, Notice):
                    self.forget(number)
                try:
                    if then is not None:
                        then(outcome)
                # A SystemExit would end this thread in silence.
                except BaseException:
                    logger.exception("a function that dlock called raised an exception")
                # No reference stays while this waits for more.
                del then, outcome


_hooks: _Hooks | None = None
_making = threading.Lock()


def _current() -> _Hooks:
    """Returns the hooks of this process: a thread does not outlive a fork."""
    global _hooks
    hooks = _hooks
    if hooks is None or hooks.process != os.getpid():
        with _making:
            hooks = _hooks
            if hooks is None or hooks.process != os.getpid():
                hooks = _hooks = _Hooks()
    return hooks


def _after_fork() -> None:
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def watch(guard: _native.Guard, then: Callable[[object], object]) -> None:
    """Calls this once with the reason, when the lock is not held any more."""
    hooks = _current()
    number = hooks.expect(then)
    try:
        guard.watch((hooks.queue, number))
    except BaseException:
        hooks.forget(number)
        raise


def notices(
    notify: weakref.WeakMethod[Callable[[Notice], object]],
) -> Callable[[], tuple[_native.OutcomeQueue, int]]:
    """Returns a function that opens a destination for notices. Each process that uses the client calls it. The
    method is the client's: a strong reference would keep the client for ever."""
    return functools.partial(_destination, notify)


def _destination(
    notify: weakref.WeakMethod[Callable[[Notice], object]],
) -> tuple[_native.OutcomeQueue, int]:
    def pass_on(outcome: object) -> None:
        alive = notify()
        # The end of the client arrives here, too.
        if alive is not None and isinstance(outcome, Notice):
            alive(outcome)

    hooks = _current()
    return hooks.queue, hooks.expect(pass_on)
