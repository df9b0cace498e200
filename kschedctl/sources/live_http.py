"""GET requests to an API server, the only ones that there are: each is bounded in time and tries, nothing is half-read.

What went wrong is a ClusterError, one line; what a caller can cope with is a RefusedError.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError, ReadTimeoutError, SSLError

from kschedctl.errors import ClusterError

T = TypeVar("T")
log = logging.getLogger(__name__)

TRIES = 5
LONGEST_WAIT = 30.0
CONNECT_SECONDS, IDLE_SECONDS, REQUEST_SECONDS = 10.0, 30.0, 120.0
CHUNK = 1 << 20
AGAIN = frozenset({408, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed a little later."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The Status with which an API server explains an answer."""

    message: str = ""
    reason: str = ""
    code: int = 0


class RefusedError(Exception):
    """The server answered 4xx: ``code``, and its own words."""

    def __init__(self, code: int, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


class BrokenOffError(Exception):
    """A long answer ended before its end: what came was whole, what should have followed is not known."""


@dataclass(frozen=True)
class Server:
    """An API server. ``pool`` makes the connections, ``headers`` says who we are and is asked before each request.

    ``seconds`` bounds a request with its body; ``sleep`` and ``clock`` are there for tests.
    """

    host: str
    pool: urllib3.PoolManager
    headers: Callable[[], urllib3.HTTPHeaderDict]
    seconds: float = REQUEST_SECONDS
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    answered: list[bool] = field(default_factory=list)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body of the answer. Raises RefusedError, ClusterError."""
        return self.decoded(path, query, lambda body: body)

    def decoded(self, path: str, query: Mapping[str, str] | None, decode: Callable[[bytes], T]) -> T:
        """What ``decode`` makes of the body; one that it cannot decode is asked for again. Raises as ``get``."""
        number = 0
        while True:
            try:
                return decode(self._body(path, query))
            except _PassingError as error:
                self._pause(error, number)
            except msgspec.DecodeError as error:
                self._pause(_PassingError(f"answered something else than was asked for: {error}"), number)
            number += 1

    def lines(self, path: str, query: Mapping[str, str], seconds: float, idle: float | None = None) -> Iterator[bytes]:
        """The lines of a long answer as they come, until the server ends it or none came for ``idle`` seconds.

        Raises BrokenOffError when the connection is lost, RefusedError, ClusterError.
        """
        try:
            response = self._open(path, query, idle or seconds + IDLE_SECONDS)
        except _PassingError as error:
            raise BrokenOffError(str(error)) from None
        try:
            yield from _lines(response)
        except ReadTimeoutError:
            return
        except (HTTPError, OSError) as error:
            raise BrokenOffError(_words(error)) from None
        finally:
            response.close()

    def _pause(self, failure: _PassingError, number: int) -> None:
        """Wait before the next try, the longer the more there were. Raises ClusterError after the last one."""
        if number == TRIES - 1 or (failure.at_once and not self.answered):
            raise ClusterError(str(failure), where=self.host, hint=failure.hint) from None
        seconds = min(max(failure.seconds, 0.2 * 2**number), LONGEST_WAIT)
        log.debug("%s: %s; again in %.1f s", self.host, failure, seconds)
        self.sleep(seconds)

    def _body(self, path: str, query: Mapping[str, str] | None) -> bytes:
        end = self.clock() + self.seconds
        response = self._open(path, query, min(IDLE_SECONDS, self.seconds))
        chunks = []
        try:
            for chunk in response.stream(CHUNK, decode_content=True):
                chunks.append(chunk)
                if self.clock() > end:
                    response.close()
                    raise _PassingError(
                        f"no whole answer within {self.seconds:g} s", hint="--request-timeout allows more"
                    )
        except (HTTPError, OSError) as error:
            response.close()
            raise _PassingError(f"connection lost: {_words(error)}") from None
        return b"".join(chunks)

    def _open(self, path: str, query: Mapping[str, str] | None, idle: float) -> urllib3.BaseHTTPResponse:
        """An answer 200 of which the body is still to be read. Raises RefusedError, ClusterError, _PassingError."""
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        timeout = urllib3.Timeout(connect=min(CONNECT_SECONDS, self.seconds), read=idle)
        headers = self.headers()
        headers.update({"Accept": "application/json", "Accept-Encoding": "gzip"})
        log.debug("GET %s", url)
        try:
            response = self.pool.request(
                "GET",
                url,
                headers=headers,
                timeout=timeout,
                preload_content=False,
                retries=False,
                redirect=False,
            )
            if response.status == 200:
                self.answered.append(True)
                return response
            body = response.read(1 << 20, decode_content=True)
        except (HTTPError, OSError) as error:
            raise self._unreachable(error) from None
        raise self._failure(response, body)

    def _failure(self, response: urllib3.BaseHTTPResponse, body: bytes) -> Exception:
        code = response.status
        message = _message(body) or f"HTTP {code} {response.reason or ''}".rstrip()
        if code == 401:
            hint = "check the credentials of this kubeconfig context"
            return ClusterError(
                f"the API server does not accept our credentials: {message}", where=self.host, hint=hint
            )
        if code in AGAIN:
            return _PassingError(f"the API server answers {code}: {message}", seconds=_retry_after(response))
        if 300 <= code < 400:
            return ClusterError(f"no API server, but a redirection ({code})", where=self.host)
        return RefusedError(code, message)

    def _unreachable(self, error: Exception) -> Exception:
        if isinstance(error, SSLError) or isinstance(getattr(error, "reason", None), SSLError):
            hint = "check certificate-authority and the address in the kubeconfig"
            return ClusterError(f"no trusted connection: {_words(error)}", where=self.host, hint=hint)
        at_once = isinstance(error, NewConnectionError)
        what = "cannot be reached" if at_once else "no answer"
        return _PassingError(f"{what}: {_words(error)}", at_once=at_once)


class _PassingError(Exception):
    """May pass. ``seconds``: not before; ``at_once``: do not insist if the server was never there."""

    def __init__(self, what: str, *, seconds: float = 0.0, at_once: bool = False, hint: str = "") -> None:
        self.seconds, self.at_once, self.hint = seconds, at_once, hint
        super().__init__(what)


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Whole lines only: what a cut connection leaves of a line is dropped."""
    rest = b""
    for chunk in response.read_chunked(decode_content=True) if response.chunked else _pieces(response):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())


def _pieces(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    while piece := response.read1(CHUNK, decode_content=True):
        yield piece


def _message(body: bytes) -> str:
    """What the Status in the body says; nothing of other bodies, as a proxy's page."""
    try:
        return " ".join(msgspec.json.decode(body, type=Status).message.split())
    except msgspec.DecodeError:
        return ""


def _retry_after(response: urllib3.BaseHTTPResponse) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else 0.0


def _words(error: BaseException) -> str:
    """What happened without urllib3's wrapping: ``Connection refused``."""
    inner = getattr(error, "reason", None) or error.__context__ or error
    text = str(inner if isinstance(inner, BaseException) else error)
    return (
        " ".join(text.rpartition("] ")[2].rpartition("Failed to establish a new connection: ")[2].split())
        or type(error).__name__
    )
