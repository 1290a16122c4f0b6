"""Reports of nodes and clients, as tuples. Times are in seconds."""

from __future__ import annotations

from typing import NamedTuple, Union

Key = Union[str, bytes]


class NodeReport(NamedTuple):
    """The state of one node."""

    node: str
    """The node's address, without user and password."""
    state: str
    """The state, for programs: ``granted``, ``held``, ``done``, ``gone``, ``unreachable``, ``timed_out``,
    ``quarantine``, ``refused``, ``unfit``, ``answers`` or ``not_asked``."""
    message: str
    """Text for people."""


class Holder(NamedTuple):
    """The holder of a lock."""

    fence: int
    held: float
    """Time since the lock was granted."""
    ttl: float
    """Time until its lease ends, if it is not renewed."""
    address: str | None
    """Address of its connection; only in HeldError."""
    client: int | None
    """Number of its connection in CLIENT LIST."""
    meta: str | bytes
    """The client's text about itself."""
    id: str
    """Public name of its token, which does not reveal it: the same on every node, and in
    ``dlock inspect``."""
    ephemeral: bool
    """True if the lock ends with the connection."""
    away: bool
    """True if the lock was granted to its reserved place, and it has not asked since."""


class Waiter(NamedTuple):
    """A waiter for a lock."""

    id: str
    """Public name of its token, which does not reveal it: the same on every node, and in
    ``dlock inspect``."""
    mode: str
    """Requested mode."""
    waited: float
    """Time since it began to wait."""
    left: float | None
    """Time until it gives up; None is without limit."""
    client: int | None
    """Number of its connection in CLIENT LIST."""
    meta: str | bytes
    """The client's text about itself."""
    away: bool
    """True if its request has ended, and its place is reserved."""


class Done(NamedTuple):
    """The holder that has left a lock done."""

    id: str
    """Public name of its token, as in ``Holder``."""
    fence: int
    since: float
    """Time since it left the lock done."""
    outcome: str | bytes
    """Its text about the outcome of its work."""


class Inspection(NamedTuple):
    """One node's report about a lock that is not free."""

    mode: str
    """``exclusive``, ``shared``, ``limit``, ``done``, ``evicted``, or ``foreign``: a plain string, as older
    kinds of locks are."""
    limit: int
    """Permits of a semaphore; 0 in the other modes."""
    holding: int
    """Number of holders. A foreign lock names none."""
    holders: tuple[Holder, ...]
    """First holders, in the order of their tokens."""
    expires: float | None
    """Time until a foreign lock expires, if it does, or a done or evicted one is free."""
    done: Done | None
    """The holder that has left the lock done."""
    waiting: int
    """Number of waiters."""
    waiters: tuple[Waiter, ...]
    """First waiters."""


class NodeInspection(NamedTuple):
    """One node's answer about a lock."""

    node: str
    """The node's address, without user and password."""
    lock: Inspection | None
    """Its report; None if the lock is free there, or if there is an ``error``."""
    error: NodeReport | None
    """Its error, if it did not answer."""


class Lease(NamedTuple):
    """A lock without renewal here: the owner of the token extends and releases it."""

    key: Key
    token: str
    """A secret: any client that has it can release the lock."""
    fence: int
    valid_for: float
    """Time until the validity ends, counted from the return of this lease."""


class Notice(NamedTuple):
    """An event for an operator, while locks go on working. Fields that do not belong to the event are None."""

    event: str
    """Name of the event, for programs. ``outage``: a caller waits, and no majority of the nodes can grant the
    lock; ``back``: one can again. ``promoted``: another server of a node is the primary now. ``stranger``: an
    address leads to another server than before. ``not_released``: a lock was released, and no majority has
    confirmed that yet."""
    message: str
    """Text for people."""
    key: Key | None = None
    node: str | None = None
    """The node's address, without user and password."""
    server: str | None = None
    """Address of the new primary."""
    quarantine: float | None = None
    """Time until the new primary grants locks."""
    before: str | None = None
    """Node-id of the former server."""
    now: str | None = None
    """Node-id of the present server."""
    needed: int | None = None
    """Number of nodes that are a majority."""
    of: int | None = None
    """Number of nodes."""
    nodes: tuple[NodeReport, ...] | None = None
    """Last known state of each node."""
    left: tuple[NodeReport, ...] | None = None
    """The nodes that have not released the lock, and their states."""
    within: float | None = None
    """Time until the leases there have ended, at most."""
