"""Exceptions of dlock. Each keeps its details as attributes, also when it is pickled."""

from __future__ import annotations

from typing import ClassVar

from ._report import Done, Holder, Key, NodeReport


class Error(Exception):
    """The base of all exceptions of dlock."""

    code: ClassVar[str] = ""
    """Code for programs, as in ``dlock --json``."""
    key: Key | None = None
    """The lock; ``str`` where its name is UTF-8."""
    nodes: tuple[NodeReport, ...] = ()
    """The state of each node, in the order of their addresses."""
    retry_after: float | None = None
    """Seconds until enough quarantines have ended for a majority, if nothing else is missing."""


class HeldError(Error):
    """Another client holds the lock, and the time to wait for it is over."""

    code = "held"
    holder: Holder | None = None
    """The holder, if a node named it in time."""


class DoneError(Error):
    """The last holder has done its work, and left the lock done for a while."""

    code = "done"
    left: float = 0.0
    """Seconds until the lock is free."""
    fence: int = 0
    """Fence of the holder that has done the work."""
    by: Done | None = None
    """That holder, if a node named it in time, with the time since then and its text about the outcome."""


class NoQuorumError(Error):
    """No majority of the nodes can be reached, or can grant anything now."""

    code = "no_quorum"


class RefusedError(Error):
    """A majority is out of reach: too many nodes refuse, and would refuse again."""

    code = "refused"


class UsageError(Error, ValueError):
    """The request is not valid. Nothing was sent."""

    code = "usage"


class LostError(Error):
    """The lock is not held any more."""

    code = "lost"
    fence: int = 0
    why: str = ""
    """The reason, for programs: ``not_renewed``, ``ended``, ``expired``, ``max_hold``, ``paused``,
    ``released``, ``done``, ``detached``; ``not_done``: it was to be left done, and too many nodes refused;
    ``forked``: a child of the holder's process is not the holder."""


class InternalError(Error):
    """A defect of dlock."""

    code = "internal"


CLASSES: dict[str, type[Error]] = {known.code: known for known in Error.__subclasses__()}
"""The classes by code."""
