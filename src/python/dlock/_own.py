"""Objects that belong to one process, and to its main interpreter."""

from __future__ import annotations

import importlib
from typing import NoReturn


class Own:
    """An object that must not be copied or pickled: another process could not use it."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        kind = f"{type(self).__module__}.{type(self).__name__}"
        raise TypeError(f"{kind} cannot be pickled or copied: each process makes clients of its own")


def is_main_interpreter() -> bool:
    """True unless this is a subinterpreter: its end would release the locks of the other interpreters."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        is_main: bool = interpreters.get_current() == interpreters.get_main()
        return is_main
    return True
