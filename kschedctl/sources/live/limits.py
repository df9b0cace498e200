"""Answers that end in time: however few bytes trickle in, none is read after the end that was set for it.

A socket's timeout is for one ``recv`` alone: a byte a second would hold headers or a body open for days.
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
    """``end``: when the whole answer has to be there, by the monotonic clock; ``idle``: how many seconds it may pause.

    ``sock`` is where the answer comes from, once it does.
    """

    end: float
    idle: float
    sock: socket.socket | None = None

    def left(self) -> float:
        """The seconds until the end; not above 0 when it is over."""
        return self.end - time.monotonic()

    def abandon(self) -> None:
        """End the answer now, in whichever thread it is read."""
        self.end = float("-inf")
        if self.sock is not None:
            with suppress(OSError, TypeError):  # gone already, or a TLS connection within another
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


_of_thread = threading.local()


@contextmanager
def limited(limit: Limit) -> Iterator[None]:
    """Answers to requests that this thread sends within the block keep to the limit, also when they are read later."""
    _of_thread.limit = limit
    try:
        yield
    finally:
        _of_thread.limit = None


def with_limits(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """The manager; from now on its connections look at the limit of the thread that sends a request."""
    classes = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {scheme: _with_limits(pool) for scheme, pool in classes.items()}
    return manager


def _with_limits(pool: Any) -> Any:
    connection = type(pool.ConnectionCls.__name__, (pool.ConnectionCls,), {"response_class": _Response})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


class _Response(HTTPResponse):
    """An answer, headers included, that is read through a ``_Reader``."""

    def __init__(self, sock: socket.socket, *arguments: Any, **settings: Any) -> None:
        super().__init__(sock, *arguments, **settings)
        limit: Limit | None = getattr(_of_thread, "limit", None)
        if limit is not None:
            limit.sock = sock
            self.fp = io.BufferedReader(_Reader(self.fp.detach(), sock, limit), 1 << 16)


class _Reader(io.RawIOBase):
    """What comes from a socket, as long as the limit allows. Raises TimeoutError."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, limit: Limit) -> None:
        self._raw, self._sock, self._limit = raw, sock, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._limit.left()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(min(left, self._limit.idle))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
