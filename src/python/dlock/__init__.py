"""Distributed locks, native to Redis and Valkey.

::

    client = dlock.Client("redis://localhost")
    with client.lock("job:42", wait=10) as guard:
        work(guard.fence)

A thread that does not need the interpreter renews the lock until the block ends. ``dlock.asyncio`` is the
same for asyncio.
"""

from __future__ import annotations

import atexit
import os
import sysconfig
from typing import ClassVar as ClassVar

from ._own import is_main_interpreter

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "dlock needs a Python with the GIL; this one is free-threaded, for which there is no build yet"
    )

if not is_main_interpreter():
    raise ImportError(
        "dlock needs the main interpreter, and this is a subinterpreter (with mod_wsgi write"
        " WSGIApplicationGroup %{GLOBAL}, with uWSGI single-interpreter)"
    )

from . import _hooks, _native
from ._errors import (
    DoneError,
    Error,
    HeldError,
    InternalError,
    LostError,
    NoQuorumError,
    RefusedError,
    UsageError,
)
from ._options import LockOptions, Seconds
from ._report import Done, Holder, Inspection, Lease, NodeInspection, NodeReport, Notice, Waiter
from ._report import Key as Key
from ._sync import Client, Guard, Lock
from ._sync import _Hook as _Hook

__version__: str = _native.VERSION

__all__ = [
    "Client",
    "Done",
    "DoneError",
    "Error",
    "Guard",
    "HeldError",
    "Holder",
    "Inspection",
    "InternalError",
    "Lease",
    "Lock",
    "LockOptions",
    "LostError",
    "NoQuorumError",
    "NodeInspection",
    "NodeReport",
    "Notice",
    "RefusedError",
    "Seconds",
    "UsageError",
    "Waiter",
]

# Tracebacks show the names that programs use. Annotations are looked up here then.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__


def _after_in_child() -> None:
    _native.after_in_child()
    _hooks.after_fork()


def _end() -> None:
    try:
        _native.release_all()
    finally:
        _hooks.end()


os.register_at_fork(
    before=_native.before, after_in_parent=_native.after_in_parent, after_in_child=_after_in_child
)
atexit.register(_end)
