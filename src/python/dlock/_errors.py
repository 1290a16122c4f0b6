"""What can go wrong. Each exception keeps its details as attributes, also when it is pickled."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Union

Key = Union[str, bytes]


class NodeReport(NamedTuple):
    """What one node said."""

    node: str
    """Its address, without user and password."""
    state: str
    """A word for programs: ``granted``, ``held``, ``gone``, ``unreachable``, ``timed_out``,
    ``quarantine``, ``refused``, ``unfit``, ``answers`` or ``not_asked``."""
    message: str
    """The same for people."""


class Holder(NamedTuple):
    """Who holds a lock. Times are in seconds."""

    fence: int
    held: float
    """For how long it has held the lock."""
    ttl: float
    """For how long its lease still runs, if it is not renewed."""
    address: str | None
    client: int | None
    """The number of its connection in CLIENT LIST."""
    meta: str | bytes
    """What it says about itself."""
    id: str
    """A name for its token that tells nothing of it: the same on every node, and in ``dlock inspect``."""
    ephemeral: bool
    """Whether the lock ends with the connection."""
    away: bool
    """Whether its turn came while it was away, and it has not asked since."""


class Error(Exception):
    """The base of all exceptions of dlock."""

    code: ClassVar[str] = ""
    """A word for programs, as ``dlock --json`` gives it."""
    key: Key | None = None
    """The lock; ``str`` where its name is UTF-8."""
    nodes: tuple[NodeReport, ...] = ()
    """What each node said, in the order in which the nodes were given."""
    retry_after: float | None = None
    """In how many seconds enough nodes will have ended their quarantine, if only that is missing."""


class Held(Error):
    """Somebody else holds the lock, and the time to wait for it is over."""

    code = "held"
    holder: Holder | None = None
    """Who, if a node could tell in time."""


class NoQuorum(Error):
    """No majority of the nodes can be reached, or can grant anything now."""

    code = "no_quorum"


class Refused(Error):
    """So many nodes refuse, and will go on refusing, that no majority is left."""

    code = "refused"


class UsageError(Error, ValueError):
    """The request is not valid. Nothing was sent."""

    code = "usage"


class Lost(Error):
    """The lock is not held any more."""

    code = "lost"
    fence: int = 0
    why: str = ""
    """A word for programs: ``not_renewed``, ``ended``, ``max_hold``, ``paused``, ``released``;
    ``forked``: a child of the holder's process is not the holder; ``panicked``: see InternalError."""


class InternalError(Error):
    """A defect of dlock. The locks that this client held count as lost."""

    code = "internal"
