"""The threads that call the program's functions, and that log dlock's lines. Each process has its own."""

from __future__ import annotations

import _thread as threads
import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from typing import cast

from . import _green, _native
from ._options import logger
from ._report import Notice


def _log(line: object) -> None:
    level, text = cast("tuple[int, str]", line)
    logger.log(level, "%s", text)


_functions: dict[int, Callable[[object], object]] = {0: _log}
"""The function for each event's number. A child process keeps the functions of its parent."""
_numbers = itertools.count(1)

_LONGEST_END = 1.0
"""Limit of the wait for functions of the program, in seconds, when the interpreter ends."""


class _Thread:
    def __init__(self, name: str) -> None:
        self.process = os.getpid()
        self.queue = _native.OutcomeQueue()
        self._name = name
        self._is_over = False
        # Locked until it ends.
        self._runs = threading.Lock()
        self._runs.acquire()

    def start(self) -> None:
        # After the end of the interpreter has begun, no thread starts.
        if not _has_ended:
            try:
                # A `threading.Thread` that is older than gevent's patches does not find itself at its end.
                threads.start_new_thread(self._run, ())
            except BaseException:
                self._runs.release()
                raise

    def _run(self) -> None:
        # It is killed with all greenlets, or its descriptor is closed with all files.
        try:
            threading.current_thread().name = self._name
            self._serve()
        finally:
            self._runs.release()

    def _serve(self) -> None:
        is_over = False
        while not is_over:
            _green.until_readable(self.queue.fileno())
            # A fork copies a greenlet into the child process.
            if self.process != os.getpid():
                return
            # All events that were queued before the end are handled.
            is_over = self._is_over
            for number, event in self.queue.collect():
                then = _functions.get(number)
                if number != 0 and not isinstance(event, Notice):
                    forget(number)
                try:
                    if then is not None:
                        then(event)
                # A SystemExit would end this thread in silence. A handler of the log may fail, too.
                except BaseException:
                    with contextlib.suppress(BaseException):
                        logger.exception("a function that dlock called raised an exception")
                # No reference stays while this waits for more.
                del then, event

    def serves(self) -> bool:
        """True if it runs in this process, or is about to."""
        return self.process == os.getpid() and self._runs.locked()

    def end(self) -> None:
        self._is_over = True
        self.queue.wake()
        self._runs.acquire(timeout=_LONGEST_END)


_hooks: _Thread | None = None
_log_lines: _Thread | None = None
_starting = threading.Lock()
_has_ended = False


def follow() -> None:
    """Starts the threads, if they do not run in this process. Passes on the logger's present level."""
    _native.set_level(logger.getEffectiveLevel())
    _current()


def _current() -> _Thread:
    """The thread that calls functions. A slow handler of the log has a thread of its own."""
    global _hooks, _log_lines
    hooks, lines = _hooks, _log_lines
    if hooks is None or lines is None or not (hooks.serves() and lines.serves()):
        with _starting:
            _hooks = hooks = _started(_hooks, "dlock-hooks", _native.serve)
            _log_lines = _started(_log_lines, "dlock-log", _native.serve_lines)
    return hooks


def _started(thread: _Thread | None, name: str, serve: Callable[[_native.OutcomeQueue], None]) -> _Thread:
    if thread is not None and thread.serves():
        return thread
    # The queue's descriptor may be closed, so that the thread has ended.
    new = _Thread(name)
    serve(new.queue)
    new.start()
    return new


def after_fork() -> None:
    """Forgets the parent's threads. A child process starts its own when it first uses a client."""
    global _starting, _hooks, _log_lines
    _starting = threading.Lock()
    _hooks = _log_lines = None


def end() -> None:
    """Ends the threads when they have handled all events. A thread that logs while the interpreter ends may end
    the process by SIGABRT."""
    global _has_ended
    _has_ended = True
    for thread in (_hooks, _log_lines):
        if thread is not None and thread.process == os.getpid():
            thread.end()


def watch(guard: _native.Guard, then: Callable[[object], object]) -> None:
    """Calls this once with the reason, when the guard stops being valid."""
    number = _expect(then)
    try:
        guard.watch((_current().queue, number))
    except BaseException:
        forget(number)
        raise


def notices(notify: weakref.WeakMethod[Callable[[Notice], object]]) -> int:
    """Returns the number of a client's notices. The method is the client's: a strong reference would keep the
    client for ever."""

    def pass_on(event: object) -> None:
        alive = notify()
        # The end of the client arrives here, too.
        if alive is not None and isinstance(event, Notice):
            alive(event)

    return _expect(pass_on)


def _expect(then: Callable[[object], object]) -> int:
    number = next(_numbers)
    _functions[number] = then
    return number


def forget(number: int) -> None:
    """Calls the function of this number no more."""
    _functions.pop(number, None)
