"""The library for threads."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TypeVar, cast

from . import _green, _hooks, _native, _options
from ._client import BaseClient
from ._errors import HeldError, LostError
from ._guard import BaseGuard
from ._options import Seconds
from ._own import Own
from ._report import Key, Lease, NodeBreak, NodeInspection

F = TypeVar("F", bound=Callable[..., object])


class Client(BaseClient):
    """A client of one node, or of several that make a majority together.

    ``nodes`` is a comma-separated list of addresses, or an iterable of them: ``redis://host:port/db``,
    ``rediss://`` with TLS, ``unix://path``; ``redis+sentinel://s1,s2,s3/NAME``, the primary that these
    Sentinels watch under this name; ``redis+cluster://h1,h2,h3``, a Redis Cluster, which is one node; also
    with TLS, ``rediss+sentinel://`` and ``rediss+cluster://``. The client connects when it is first used. It
    can be shared by threads, and be made before a fork: each child connects anew.

    Without ``nodes`` they are those of the environment variable ``DLOCK_NODES``, where a name without a
    scheme is a host.

    ``node_timeout`` is how long a node may take to answer, connecting included: by default a twentieth
    of the lease, but at least 50 ms and at most a second.

    ``notify`` is called with a Notice of what an operator should know while the work goes on: outages and
    promotions, for example. That is done in a thread of dlock, one call at a time: it must return soon.
    """

    def lock(
        self,
        key: str | bytes,
        *,
        ttl: Seconds = _options.TTL,
        wait: Seconds | None = None,
        shared: bool = False,
        limit: int | None = None,
        ephemeral: bool = False,
        meta: str = "",
        max_hold: Seconds | None = None,
    ) -> Lock:
        """A lock, for a ``with`` block, or to decorate a function. By itself this does nothing.

        - ``ttl``: the lease. If this process dies, the lock is free again after this time. As long as
          the process lives, it is renewed each time a third of it has passed.
        - ``wait``: how long to wait for the lock; without limit by default, and 0 is not at all.
        - ``shared``: for readers: any number of them hold it together, and nobody else beside them.
        - ``limit``: for a semaphore: so many hold it together, on a single node only.
        - ``ephemeral``: the lock ends with the connection: at once when this process dies.
        - ``meta``: a text about the holder, for whoever inspects the lock.
        - ``max_hold``: after this time the lock is lost, even if every renewal succeeds.
        """
        native = _options.lock(self._native, key, ttl, shared, limit, ephemeral, meta, max_hold)
        return Lock(native, wait)

    def extend(self, key: Key, token: str, ttl: Seconds, *, fence: int | None = None) -> Lease:
        """Extends a lock by its token: it is valid for ``ttl`` from now on, also where that is less than
        before. Without ``fence`` the nodes are asked for it first. Raises LostError if the token does not
        hold the lock."""
        return cast(Lease, _green.call(self._native.extend, key, token, ttl, fence))

    def release(self, key: Key, token: str) -> bool:
        """Releases a lock by its token. Whether the token held it at any node."""
        return cast(bool, _green.call(self._native.release, key, token))

    def inspect(self, key: Key) -> tuple[NodeInspection, ...]:
        """What each node knows about a lock: who holds it, and who waits for it."""
        return cast("tuple[NodeInspection, ...]", _green.call(self._native.inspect, key))

    def break_lock(self, key: Key, token: str | None = None) -> tuple[NodeBreak, ...]:
        """Ends a lock on all nodes, or only the lease of this token, whoever holds it. A guard learns of it
        when it next renews its lease."""
        return cast("tuple[NodeBreak, ...]", _green.call(self._native.break_lock, key, token))

    def close(self) -> None:
        """Waits until releases in the background are done, and closes the connections that are not in
        use. Guards stay valid, and the client can still be used."""
        _green.call(self._native.close)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lock(Own, _native.Recipe):
    """A lock that is wanted. It is a recipe: it can be acquired any number of times, by any thread. It is not
    reentrant: who holds it and acquires it again waits for himself."""

    __slots__ = ()

    def try_acquire(self) -> Guard | None:
        """Acquires the lock if it is free."""
        try:
            return self._acquire_now()
        except HeldError:
            return None

    def __repr__(self) -> str:
        return f"<dlock.Lock {self._native.key!r}>"

    def __call__(self, function: F) -> F:
        """Decorates a function: each call acquires the lock, and holds it until the function returns."""
        if _options.is_coroutine_function(function):
            raise TypeError("a coroutine would return before it has run; use a lock of dlock.asyncio")

        @functools.wraps(function)
        def locked(*args: object, **kwargs: object) -> object:
            with self.acquire():
                return function(*args, **kwargs)

        return cast(F, locked)


class Guard(BaseGuard, _native.Block):
    """A lock that is held, and renewed in the background until it is released.

    Validity is a matter of time: ``check`` before work that must not be done twice, and show ``fence``
    to whatever can refuse a smaller one. A guard that is collected releases the lock, and warns.
    """

    __slots__ = ("__weakref__", "_on_lost")

    def extend(self, ttl: Seconds) -> None:
        """Renews the lease now, and from now on, with this length or the present one, whichever is
        longer. Waits until a majority has renewed it. Raises LostError, or RefusedError if the nodes accept
        no so long lease; the lock is held as before then."""
        _green.call(self._native.extend, ttl)

    def detach(self) -> Lease:
        """Hands the lock over to whoever has its token, another process say, which extends and releases it by
        that. This process neither renews nor releases it any more. Waits until all nodes that answer have the
        lock."""
        return cast(_native.Detached, _green.call(self._native.detach)).hear()

    def on_lost(self, hook: Callable[[LostError], object]) -> None:
        """Calls this with the reason as soon as the lock is lost; at once if it is. A release is no loss. It is
        called in a thread of dlock, one call at a time: it must return soon. Raises LostError if the lock was
        released."""
        if not callable(hook):
            raise TypeError(f"a hook is a function, not {type(hook).__name__}")
        # The guard alone keeps its hooks: they may refer to it, and it is collected all the same.
        hooks: list[Callable[[LostError], object]] = getattr(self, "_on_lost", [])
        self._on_lost = [*hooks, hook]
        _hooks.watch(self._native, functools.partial(_tell, weakref.ref(self), len(hooks)))


def _tell(guard: weakref.ref[Guard], hook: int, loss: object) -> None:
    alive = guard()
    if alive is not None and isinstance(loss, LostError) and loss.why not in ("released", "detached"):
        alive._on_lost[hook](loss)


def release_all() -> None:
    """Releases the locks of this process, and waits for that, but not for long. Its exit calls this."""
    _native.release_all()
