"""What nodes and clients tell, as tuples. Times are in seconds."""

from __future__ import annotations

from typing import NamedTuple, Union

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
    """Who holds a lock."""

    fence: int
    held: float
    """For how long it has held the lock."""
    ttl: float
    """For how long its lease still runs, if it is not renewed."""
    address: str | None
    """Where its connection comes from; only in HeldError."""
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


class Waiter(NamedTuple):
    """Who waits for a lock."""

    id: str
    """A name for its token that tells nothing of it: the same on every node, and in ``dlock inspect``."""
    mode: str
    """How it wants to hold the lock."""
    waited: float
    """For how long it has waited."""
    left: float | None
    """For how much longer it will; None is without limit."""
    client: int | None
    """The number of its connection in CLIENT LIST."""
    meta: str | bytes
    """What it says about itself."""
    away: bool
    """Whether its request has ended, and only its place is kept."""


class Inspection(NamedTuple):
    """What one node knows about a lock that is not free."""

    mode: str
    """``exclusive``, ``shared``, ``limit``, or ``foreign``: a plain string, as older kinds of locks are."""
    limit: int
    """The permits of a semaphore; 0 in the other modes."""
    holding: int
    """How many hold it. Nobody is known for a foreign lock."""
    holders: tuple[Holder, ...]
    """The first of them, oldest first."""
    expires: float | None
    """When a foreign lock expires, if it does."""
    waiting: int
    """How many wait."""
    waiters: tuple[Waiter, ...]
    """The first of them."""


class NodeInspection(NamedTuple):
    """What one node says about a lock."""

    node: str
    """Its address, without user and password."""
    lock: Inspection | None
    """What it knows; None if the lock is free there, or ``error`` says why it is not known."""
    error: NodeReport | None
    """Why it did not answer."""


class NodeBreak(NamedTuple):
    """How many leases of a lock one node has ended."""

    node: str
    """Its address, without user and password."""
    ended: int | None
    error: NodeReport | None
    """Why it did not answer."""


class Lease(NamedTuple):
    """A lock that nobody here renews: whoever has the token extends and releases it."""

    key: Key
    token: str
    """It is a secret: whoever knows it can release the lock."""
    fence: int
    valid_for: float
    """For how long the lock is certainly held, from the moment at which this was told."""


class Notice(NamedTuple):
    """Something that an operator should know, though the work goes on. What does not belong to its event is
    None or empty."""

    event: str
    """A word for programs. ``outage``: no majority of the nodes can grant a lock for which somebody waits;
    ``back``: one can again. ``promoted``: another server of a node is the primary now. ``stranger``: an
    address leads to another server than before. ``not_released``: a lock was released, and no majority has
    heard of it yet."""
    message: str
    """The same for people."""
    key: Key | None = None
    node: str | None = None
    """The node's address, without user and password."""
    server: str | None = None
    """Where the new primary is."""
    quarantine: float | None = None
    """For how long the new primary grants nothing."""
    before: str | None = None
    """The node-id of the server that was there before."""
    now: str | None = None
    """That of the one that is there now."""
    needed: int | None = None
    """How many nodes are a majority."""
    of: int | None = None
    """How many nodes there are."""
    nodes: tuple[NodeReport, ...] = ()
    """What each node said last."""
    left: tuple[NodeReport, ...] = ()
    """The nodes that have not released the lock, and what they said."""
    within: float | None = None
    """When the leases end there, at the latest."""
