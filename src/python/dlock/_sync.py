"""The library for threads."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TypeVar, cast

from . import _green, _native, _options
from ._errors import Held, Lost
from ._guard import BaseGuard
from ._options import Seconds, logger
from ._own import Own

F = TypeVar("F", bound=Callable[..., object])


class Client(Own):
    """A client of one node, or of several that make a majority together.

    ``nodes`` is a comma-separated list of addresses, or an iterable of them: ``redis://host:port/db``,
    ``rediss://`` with TLS, ``unix://path``. The client connects when it is first used. It can be
    shared by threads, and be made before a fork: each child connects anew.

    ``node_timeout`` is how long a node may take to answer, connecting included: by default a twentieth
    of the lease, but at least 50 ms and at most a second.
    """

    def __init__(self, nodes: str | Iterable[str], *, node_timeout: Seconds | None = None) -> None:
        self._native = _options.connect(nodes, node_timeout)

    @property
    def nodes(self) -> list[str]:
        """The addresses of the nodes, without user and password."""
        return self._native.nodes()

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

    def try_acquire(
        self,
        key: str | bytes,
        *,
        ttl: Seconds = _options.TTL,
        shared: bool = False,
        limit: int | None = None,
        ephemeral: bool = False,
        meta: str = "",
        max_hold: Seconds | None = None,
    ) -> Guard | None:
        """Acquires a lock if it is free; the options are those of ``lock``."""
        native = _options.lock(self._native, key, ttl, shared, limit, ephemeral, meta, max_hold)
        return Lock(native, None).try_acquire()

    def close(self) -> None:
        """Waits until releases in the background are done, and closes the connections that are not in
        use. Guards stay valid, and the client can still be used."""
        _green.call(self._native.close, self._native.close_later)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<dlock.Client {', '.join(self.nodes)}>"


class Lock(Own):
    """A lock that is wanted. It is a recipe: it can be acquired any number of times, by any thread."""

    __slots__ = ("_entered", "_native", "_wait")

    def __init__(self, native: _native.Lock, wait: Seconds | None) -> None:
        self._native = native
        self._wait = _native.seconds("wait", wait)
        self._entered: list[tuple[int, Guard]] = []

    def acquire(self) -> Guard:
        """Acquires the lock. Raises Held when the time to wait is over."""
        return self._acquire(self._wait)

    def try_acquire(self) -> Guard | None:
        """Acquires the lock if it is free."""
        try:
            return self._acquire(0)
        except Held:
            return None

    def _acquire(self, wait: Seconds | None) -> Guard:
        return Guard(_green.call(self._native.acquire, self._native.acquire_later, wait))

    def __enter__(self) -> Guard:
        guard = self.acquire()
        self._entered.append((threading.get_ident(), guard))
        return guard

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The newest of this thread. Some frameworks end a block in another thread than they began it in.
        mine = [entry for entry in self._entered if entry[0] == threading.get_ident()]
        entry = (mine or self._entered)[-1]
        self._entered.remove(entry)
        entry[1].__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """Decorates a function: each call acquires the lock, and holds it until the function returns."""
        if _options.is_coroutine_function(function):
            raise TypeError("a coroutine would return before it has run; use a lock of dlock.asyncio")

        @functools.wraps(function)
        def locked(*args: object, **kwargs: object) -> object:
            with self.acquire():
                return function(*args, **kwargs)

        return cast(F, locked)


class Guard(BaseGuard):
    """A lock that is held, and renewed in the background until it is released.

    Validity is a matter of time: ``check`` before work that must not be done twice, and show ``fence``
    to whatever can refuse a smaller one. A guard that is collected releases the lock, and warns.
    """

    __slots__ = ()

    def extend(self, ttl: Seconds) -> None:
        """Renews the lease now, and from now on, with this length or the present one, whichever is
        longer. Waits until a majority has renewed it. Raises Lost, or Refused if the nodes accept no
        so long lease; the lock is held as before then."""
        _green.call(self._native.extend, self._native.extend_later, ttl)

    def release(self) -> None:
        """Releases the lock. Waits until a majority of the nodes has answered, or until the time for an
        answer is over; the rest goes on in the background. Raises Lost if it was lost before."""
        _green.call(self._native.release, self._native.release_later)

    def __enter__(self) -> Guard:
        self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._native.is_open() and not self._native.is_inherited():
            return  # the block has released it
        try:
            self.release()
        except Lost as lost:
            if error is None:
                raise
            # An exception of the block says more.
            logger.warning("%s", lost)


def release_all() -> None:
    """Releases the locks of this process, and waits for that, but not for long. Its exit calls this."""
    _native.release_all()
