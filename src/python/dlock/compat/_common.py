"""The base of both kinds of redis-py's locks."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Union
from urllib.parse import quote

import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import LockError, LockNotOwnedError, ResponseError

from .. import _native, _options
from .._errors import LostError, NoQuorumError, RefusedError, UsageError
from .._options import LockOptions

try:
    LockError("", lock_name="")
except TypeError:
    raise ImportError(f"dlock.compat needs redis-py 5.0 or later, and this is {redis.__version__}") from None

Number = Union[int, float]

RELEASED = "Cannot release a lock that's not owned or is already unlocked."
NOT_OWNED = "Cannot {} a lock that's no longer owned"
NOT_RELEASED = "The server has not released the lock; dlock asks it again in the background."
SHORTEST = 0.01
"""The shortest lease, in seconds."""

NOT_IN_TIME = "Unable to acquire lock within the time specified"


class Lease:
    """A lock that was acquired here: renewed, or for one lease, which goes on when this object is collected."""

    def __init__(self, guard: _native.Guard) -> None:
        guard.give()
        self.guard = guard
        self.token = guard.token


class BaseLock:
    """The state of a lock like redis-py's, and helpers."""

    def __init__(
        self,
        redis: Any,
        name: str | bytes | memoryview | Number,
        timeout: Number | None = None,
        sleep: Number = 0.1,
        blocking: bool = True,
        blocking_timeout: Number | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self.local.token = None
        self.local.lease = None
        self._client = client_of(redis)
        self._key = bytes(redis.get_encoder().encode(name))
        self._shown = name if isinstance(name, str) else self._key.decode(errors="replace")

    def _wanted(self) -> _native.Lock:
        # redis-py treats a time-out of 0 as none, too.
        leased: LockOptions = {"ttl": max(self.timeout, SHORTEST), "renew": False} if self.timeout else {}
        return _options.lock(self._client, self._key, leased)

    def _wait(self, blocking: bool | None, blocking_timeout: Number | None, token: object) -> Number | None:
        """Returns the limit of the wait."""
        if token is not None:
            raise LockError("dlock makes its tokens itself", lock_name=self._shown)
        if not (self.blocking if blocking is None else blocking):
            return 0
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        return None if wait is None else max(0, wait)

    def _take(self, guard: _native.Guard) -> None:
        self.local.lease = Lease(guard)
        self.local.token = guard.token.encode()

    def _token(self) -> str | None:
        """Returns this thread's token: of the lock that it acquired, or one that the program has set to release
        a lock of another process."""
        token: str | bytes | None = getattr(self.local, "token", None)
        return token.decode(errors="replace") if isinstance(token, bytes) else token

    def _need_token(self, refusal: str) -> str:
        token = self._token()
        if token is None:
            raise LockError(refusal, lock_name=self._shown)
        return token

    def _need_timeout(self, what: str) -> tuple[str, Number]:
        token = self._need_token(f"Cannot {what} an unlocked lock")
        if not self.timeout:
            text = f"Cannot {what} a lock with no timeout"
            raise LockError(text, lock_name=self._shown)
        return token, self.timeout

    def _guard(self, token: str) -> _native.Guard | None:
        """Returns this thread's guard of this token, if it has one."""
        lease: Lease | None = getattr(self.local, "lease", None)
        return lease.guard if lease is not None and lease.token == token else None

    def _is_tried_again(self, guard: _native.Guard | None) -> bool:
        """True if a release of this guard has begun before: dlock goes on with it in the background."""
        return guard is not None and guard.is_renewed() and not (guard.is_open() or guard.is_inherited())

    def _not_owned(self, what: str) -> LockNotOwnedError:
        return LockNotOwnedError(NOT_OWNED.format(what), lock_name=self._shown)

    @contextmanager
    def _as_redis(self, what: str = "use") -> Iterator[None]:
        """Turns exceptions of dlock into redis-py's."""
        try:
            yield
        except LostError as lost:
            raise self._not_owned(what) from lost
        except NoQuorumError as error:
            raise RedisConnectionError(str(error)) from error
        except (RefusedError, UsageError) as error:
            raise ResponseError(str(error)) from error

    @contextmanager
    def _releasing(self, token: str) -> Iterator[None]:
        """Forgets the token, unless the server did not answer: then the program can release again."""
        self.local.token = None
        try:
            with self._as_redis("release"):
                yield
        except RedisConnectionError:
            self.local.token = token.encode()
            raise


_clients: weakref.WeakKeyDictionary[Any, _native.Client] = weakref.WeakKeyDictionary()


def client_of(redis: Any) -> _native.Client:
    """Returns the client for the server of a redis-py client. Clients with one pool share it."""
    pool = getattr(redis, "connection_pool", None)
    if pool is None or "sentinel" in type(pool).__name__.lower():
        raise UsageError(
            f"dlock.compat takes a client of one server, not {type(redis).__name__} with"
            f" {type(pool).__name__}; use dlock.Client"
        )
    client = _clients.get(pool)
    if client is None:
        client = _clients[pool] = _options.connect(address(pool), pool.connection_kwargs.get("socket_timeout"))
    return client


def address(pool: Any) -> str:
    """Returns the address of the server of a pool, with the login."""
    options: dict[str, Any] = pool.connection_kwargs
    kinds = {kind.__name__ for kind in pool.connection_class.__mro__}
    query: list[tuple[str, object]] = []
    user, password = _login(options)
    if "UnixDomainSocketConnection" in kinds:
        begin = f"unix://{quote(str(options['path']))}"
        query += [("user", user), ("pass", password), ("db", options.get("db") or None)]
    else:
        host = str(options.get("host") or "localhost")
        host = f"[{host}]" if ":" in host else host
        tls = "SSLConnection" in kinds
        login = "".join(quote(part or "", safe="") + end for part, end in ((user, ":"), (password, "@")))
        login = login if user or password else ""
        place = f"{host}:{options.get('port') or 6379}/{options.get('db') or 0}"
        begin = f"{'rediss' if tls else 'redis'}://{login}{place}"
        if tls:
            query += _certificates(options)
    text = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query if value)
    return f"{begin}?{text}" if text else begin


def _login(options: dict[str, Any]) -> tuple[str | None, str | None]:
    provider = options.get("credential_provider")
    if provider is None:
        return options.get("username"), options.get("password")
    given = provider.get_credentials()
    return (None, given[0]) if len(given) == 1 else (given[0], given[1])


def _certificates(options: dict[str, Any]) -> list[tuple[str, object]]:
    required = options.get("ssl_cert_reqs", "required")
    if getattr(required, "name", str(required)).lower() not in ("required", "cert_required"):
        raise UsageError("dlock always checks certificates; this client has ssl_cert_reqs off")
    if options.get("ssl_ca_data") or options.get("ssl_ca_path"):
        raise UsageError("dlock reads CA certificates from a file only: use ssl_ca_certs")
    files = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}
    return [(name, options.get(option)) for name, option in files.items()]
