"""Time limits for HTTP responses, enforced however slowly the bytes arrive.

A socket's timeout only limits one ``recv``, so that one byte per second could hold a response open for days.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

import urllib3


@dataclass(eq=False)
class Limit:
    """The time limit of one response."""

    end: float
    """The deadline of the whole response, by the monotonic clock."""
    idle: float
    """The maximum number of seconds between two reads."""
    sock: socket.socket | None = None
    """The socket that the response is read from, once it is open."""

    def seconds_left(self) -> float:
        """Return the number of seconds until the deadline, which is 0 or less once it has passed."""
        return self.end - time.monotonic()

    def abandon(self) -> None:
        """Abort the response now, even if another thread is reading it."""
        self.end = float("-inf")
        if self.sock is not None:
            with suppress(OSError, TypeError):  # closed already, or a TLS connection inside another one
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


_thread_state = threading.local()


@contextmanager
def apply_limit(limit: Limit) -> Iterator[None]:
    """Apply the limit to the responses to all requests that this thread sends within the block.

    The limit holds even if the responses are read later.
    """
    _thread_state.limit = limit
    try:
        yield
    finally:
        _thread_state.limit = None


def enforce_limits(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Make the manager's connections apply the sending thread's limit, and return the manager."""
    classes = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {scheme: _build_limited_pool_class(pool) for scheme, pool in classes.items()}
    return manager


def _build_limited_pool_class(pool: Any) -> Any:
    """Build a subclass of the pool class whose connections read limited responses."""
    connection = type(pool.ConnectionCls.__name__, (pool.ConnectionCls,), {"response_class": _Response})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


class _Response(HTTPResponse):
    """An HTTP response whose headers and body are read through a ``_Reader``."""

    def __init__(self, sock: socket.socket, *arguments: Any, **settings: Any) -> None:
        super().__init__(sock, *arguments, **settings)
        limit: Limit | None = getattr(_thread_state, "limit", None)
        if limit is not None:
            limit.sock = sock
            self.fp = io.BufferedReader(_Reader(self.fp.detach(), sock, limit), 1 << 16)


class _Reader(io.RawIOBase):
    """A raw stream that reads from a socket and raises TimeoutError once the limit is exceeded."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, limit: Limit) -> None:
        self._raw = raw
        self._sock = sock
        self._limit = limit

    def readable(self) -> bool:
        """Return True, since the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read into the buffer. Raises TimeoutError once the limit is exceeded."""
        seconds_left = self._limit.seconds_left()
        if seconds_left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(min(seconds_left, self._limit.idle))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close the stream and the stream below it."""
        self._raw.close()
        super().close()
