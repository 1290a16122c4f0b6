"""The library for threads."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from . import _green, _hooks, _native, _options
from ._client import BaseClient
from ._errors import LostError
from ._guard import BaseGuard
from ._options import LockOptions, Seconds
from ._own import Own
from ._report import Key, Lease, NodeInspection

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


class Client(BaseClient):
    """A client of one node, or of several that make a majority together.

    ``nodes`` is a comma-separated list of addresses, or an iterable of them: ``redis://host:port/db``,
    ``rediss://`` with TLS, ``unix://path``; ``redis+sentinel://s1,s2,s3/NAME``, the primary that these
    Sentinels watch under this name; ``redis+cluster://h1,h2,h3``, a Redis Cluster, which is one node; also
    with TLS, ``rediss+sentinel://`` and ``rediss+cluster://``. A name without a scheme is a host. The client
    connects at its first use. Threads can share it, and it can be made before a fork: each child process opens
    connections of its own.

    Without ``nodes`` the client takes them from the environment variable ``DLOCK_NODES``.

    ``node_timeout`` limits a request to a node, connecting included: by default a twentieth of the lease, but
    at least 50 ms and at most a second. For a lock it is never longer than a quarter of the lease.

    ``notify`` is called with each Notice, an event for an operator: an outage or a promotion, for example. A
    thread of dlock makes one call at a time, so the function must return soon.
    """

    def lock(self, key: Key, **options: Unpack[LockOptions]) -> Lock:
        """Returns a lock, for a ``with`` block, or to decorate a function. Nothing is sent yet. The options are
        those of ``dlock.LockOptions``: ``ttl``, ``wait`` and others."""
        lock = Lock(self._lock(key, options))
        lock._client = self
        return lock

    def extend(self, key: Key, token: str, ttl: Seconds, *, fence: int) -> Lease:
        """Extends a lock by its token and fence: the lease ends ``ttl`` from now, or later if it does so
        anyway. Raises LostError if the token does not hold the lock."""
        return cast(Lease, _green.call(self._used().extend, key, token, ttl, fence))

    def release(self, key: Key, token: str) -> bool:
        """Releases a lock by its token. Returns True if the token held it at any node."""
        return cast(bool, _green.call(self._used().release, key, token))

    def inspect(self, key: Key) -> tuple[NodeInspection, ...]:
        """Returns each node's report about a lock: its holders and waiters."""
        return cast("tuple[NodeInspection, ...]", _green.call(self._used().inspect, key))

    def close(self) -> None:
        """Waits until releases in the background are done, for one node time-out at most, and closes the
        idle connections. Guards stay valid, and the client can still be used."""
        _green.call(self._native.close)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lock(Own, _native.LockBase):
    """A lock and its options. It can be acquired any number of times, by any thread, and can begin one block
    itself: ``with client.lock(…)``. It is not reentrant: a thread that holds the lock and acquires it again
    waits for itself."""

    __slots__ = ("_client",)
    # The client passes on its notices while a lock or a guard refers to it.
    _client: Client

    def run_once(self, window: Seconds, work: Callable[[Guard], T]) -> T:
        """Runs a job once per window: acquires the lock, does the work, and leaves the lock done until
        ``window`` after it was acquired. If the work raises, the lock is released, and another client may try.
        Raises DoneError if the work of this window has been done already."""
        self._native.check_once(window)
        with self.acquire() as guard:
            result = _options.ended(work(guard))
            guard.done(window)
        return result

    def __repr__(self) -> str:
        return f"<dlock.Lock {self._native.key!r}>"

    def __call__(self, function: F) -> F:
        """Decorates a function: each call acquires the lock, and holds it until the function returns."""
        _options.check_function(function)

        @functools.wraps(function)
        def locked(*args: object, **kwargs: object) -> object:
            with self.acquire():
                return _options.ended(function(*args, **kwargs))

        return cast(F, locked)


class Guard(BaseGuard, _native.GuardBase):
    """A lock that is held, and renewed in the background until it is released.

    Validity is a matter of time: ``check`` before work that must not be done twice, and show ``fence`` to
    services that can refuse a smaller one. A guard that is garbage-collected releases the lock, and warns.
    """

    __slots__ = ("__weakref__", "_client", "_hooks")
    # Only the guard refers to its hooks: they may refer to it, and it can still be collected.
    _hooks: list[_Hook]

    def extend(self, ttl: Seconds) -> None:
        """Renews the lease now, and from now on, with this length or the present one, whichever is
        longer. Waits until a majority has renewed it. Raises LostError, or RefusedError if the nodes refuse a
        lease of this length; then the lock is held as before."""
        _green.call(self._native.extend, ttl)

    def done(self, window: Seconds, outcome: str = "") -> None:
        """Leaves the lock done until ``window`` after it was acquired: until then every request for it raises
        DoneError at once, with this ``outcome``. From this call on the guard is not valid, and the end of a
        ``with`` block raises only if this has. Waits until a majority of the nodes has answered. Raises
        UsageError if the lock is shared or has a limit; then it is held as before. Raises LostError if the lock
        was lost before, or too few nodes have answered: another client may do the work again."""
        _green.call(self._native.done, window, outcome)

    def detach(self) -> Lease:
        """Hands the lock over to the owner of its token, for example another process, which extends and
        releases it by token. This process stops renewing it, and does not release it. Waits until all
        nodes that answer have the lock. Raises LostError if the lock was lost before."""
        return cast(Lease, _green.call(self._native.detach))

    def on_lost(self, hook: Callable[[LostError], object]) -> None:
        """Calls this function with the reason as soon as the lock is lost, or at once if it is. A release is no
        loss, nor is a lock that is left done. A thread of dlock makes one call at a time, so the function must
        return soon; several functions are called in any order. Keep the guard: once it is collected, its
        functions are not called. Raises LostError if the lock was released."""
        if not callable(hook):
            raise TypeError(f"a hook is a function, not {type(hook).__name__}")
        kept = _Hook(hook)
        self._hooks.append(kept)
        _hooks.watch(self._native, functools.partial(_call, weakref.ref(kept)))


_MEANT = ("released", "done", "detached")
"""Reasons of a loss that the holder caused itself."""


class _Hook:
    """A function to call when a lock is lost."""

    __slots__ = ("__weakref__", "function")

    def __init__(self, function: Callable[[LostError], object]) -> None:
        self.function = function


def _call(hook: weakref.ref[_Hook], loss: object) -> None:
    alive = hook()
    if alive is not None and isinstance(loss, LostError) and loss.why not in _MEANT:
        alive.function(loss)
