"""GET requests to an API server, bounded in time, size and number of tries.

Responses are read completely or not at all. Failures are raised as a ClusterError with a one-line message, or as a
RefusedError if the caller may be able to continue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import urllib3
from urllib3.exceptions import (
    HTTPError,
    InvalidHeader,
    LocationValueError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from kschedctl.api.decoding import decode_json
from kschedctl.errors import ClusterError, InputError
from kschedctl.sources.live.limits import Limit, apply_limit

T = TypeVar("T")
log = logging.getLogger(__name__)

TRIES = 5
FIRST_WAIT, LONGEST_WAIT = 0.2, 30.0
"""The wait in seconds after the first try, and the longest wait between two tries."""
CONNECT_SECONDS, IDLE_SECONDS, REQUEST_SECONDS, LIST_SECONDS = 10.0, 30.0, 120.0, 1800.0
"""The default limits for connecting, between two reads, for a request with all tries, and for a list with all pages."""
ERROR_SECONDS = 5.0
"""The time limit for the body of an error response."""
GRACE_SECONDS = 0.5
"""The time that a streamed response may take longer than the server was asked for."""
CHUNK = 1 << 20
MAX_BYTES = 64 << 20
"""The maximum size of a response, or of a line of a streamed one. A page of 500 pods has 5 to 20 MB."""
LONGEST_MESSAGE = 500
ACCEPT = "application/json;drop=metadata.managedFields"
"""The media type, which asks the server to leave out managedFields.

The fields take up to 60 % of an object, and nothing here reads them. An API server from 1.38 on leaves them out if its
gate ManagedFieldsOptOut is on. Other servers ignore unknown parameters. Upstream: KEP-5958; negotiation in
apiserver/pkg/endpoints/handlers/negotiation/negotiate.go.
"""
UNAUTHORIZED = 401
RETRIED_CODES = frozenset({408, 429, 500, 502, 503, 504})
"""Status codes after which the same request may succeed a little later."""


class StatusBody(msgspec.Struct, frozen=True, rename="camel"):
    """A Status object with which an API server explains an error."""

    message: str = ""
    reason: str = ""
    code: int = 0


class RefusedError(Exception):
    """An error for a 4xx response, with its status code and the server's message."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


class BrokenOffError(Exception):
    """An error for a streamed response that ended early. Everything received before is complete."""


class TooLargeError(ClusterError):
    """An error for a response of more than MAX_BYTES."""


class UnauthorizedError(ClusterError):
    """An error for credentials that the server does not accept."""


@dataclass(frozen=True)
class Server:
    """An API server and the settings of requests to it."""

    host: str
    pool: urllib3.PoolManager
    """The connection pool, whose connections enforce limits."""
    headers: Callable[[], urllib3.HTTPHeaderDict]
    """A function that returns the authentication headers of the next request."""
    seconds: float = REQUEST_SECONDS
    """The time limit of a request, including its body and all tries."""
    list_seconds: float = LIST_SECONDS
    """The time limit of a list, including all its pages."""
    renew: Callable[[urllib3.HTTPHeaderDict], bool] = lambda refused: False
    """A function that gets the rejected headers and returns whether new credentials are available."""
    closed: threading.Event = field(default_factory=threading.Event)
    """Set once no further request may be sent."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set once the server has answered a request with 200."""
    limits: set[Limit] = field(default_factory=set)
    """The limits of the responses that are being read."""

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Send a GET request and return the body.

        Raises RefusedError if the server denies the request, and ClusterError if the request fails otherwise.
        """
        return self.get_decoded_body(path, query, lambda body: body)

    def get_decoded_body(
        self, path: str, query: Mapping[str, str] | None, decode: Callable[[bytes], T], end: Deadline | None = None
    ) -> T:
        """Send a GET request and return the decoded body.

        The request ends by ``end`` or within ``seconds``, whichever is earlier. The request is retried after a
        temporary error, and if ``decode`` raises ValueError or RecursionError. Raises RefusedError if the server denies
        the request, and ClusterError if the request fails otherwise.
        """
        own_end = Deadline.after(self.seconds)
        end = min(end, own_end) if end else own_end
        number = 0
        while True:
            try:
                return decode(self._read_body(path, query, end))
            except _TemporaryError as error:
                failure = error
            except (ValueError, RecursionError) as error:
                failure = _TemporaryError(f"unexpected response: {describe_decoding_error(error)}")
            self._wait_for_retry(failure, number, end)
            number += 1

    def iter_lines(
        self, path: str, query: Mapping[str, str], seconds: float, idle: float | None = None
    ) -> Iterator[bytes]:
        """Yield the lines of a streamed response until ``seconds`` have passed or the server ends the response.

        Raises BrokenOffError if the connection fails temporarily or is lost, or if no data arrives for ``idle`` seconds
        (by default, any pause is allowed). Raises RefusedError or ClusterError if the server rejects the request or
        cannot be reached.
        """
        end = Deadline.after(self.seconds)
        with self._register_limit(end) as limit:
            try:
                response = self._open_response(path, query, limit, end)
            except _TemporaryError as error:
                raise BrokenOffError(str(error)) from None
            try:
                limit.end = monotonic() + seconds + GRACE_SECONDS
                limit.idle = idle or seconds + GRACE_SECONDS
                yield from _iter_lines(response)
            except (HTTPError, OSError) as error:
                raise BrokenOffError(_describe_error(error)) from None
            finally:
                response.close()

    def close(self) -> None:
        """Abort all responses that are being read, in whichever thread, and allow no further requests."""
        self.closed.set()
        for limit in tuple(self.limits):
            limit.abandon()

    def _wait_for_retry(self, failure: _TemporaryError, number: int, end: Deadline) -> None:
        """Wait with exponential backoff before the next try, but at most LONGEST_WAIT seconds.

        The wait is longer if the server asks for it. ``number`` is the number of the failed try, from 0. Raises
        ClusterError if there is no further try.
        """
        seconds = min(max(failure.seconds, FIRST_WAIT * 2**number), LONGEST_WAIT)
        is_last = number == TRIES - 1 or monotonic() + seconds >= end.at or self.closed.is_set()
        # A server that has never answered and refuses the connection at once is not tried again
        is_unreachable = failure.at_once and not self.answered.is_set()
        if is_last or is_unreachable:
            raise ClusterError(str(failure), where=self.host, hint=failure.hint) from None
        log.debug("%s: %s; again in %.1f s", self.host, failure, seconds)
        self.closed.wait(seconds)

    @contextmanager
    def _register_limit(self, end: Deadline) -> Iterator[Limit]:
        """Register a limit that ``close`` can abandon while the block runs."""
        limit = Limit(end.at, IDLE_SECONDS)
        self.limits.add(limit)
        try:
            yield limit
        finally:
            self.limits.discard(limit)

    def _read_body(self, path: str, query: Mapping[str, str] | None, end: Deadline) -> bytes:
        """Send a GET request and return the complete body of its response.

        Raises RefusedError if the server denies the request, _TemporaryError if a retry may help, and ClusterError
        otherwise.
        """
        with self._register_limit(end) as limit:
            response = self._open_response(path, query, limit, end)
            chunks = []
            size = 0
            announced_size = response.length_remaining or 0
            try:
                self._check_response_size(announced_size)
                for chunk in response.stream(CHUNK, decode_content=True):
                    chunks.append(chunk)
                    size += len(chunk)
                    self._check_response_size(size)
            except (HTTPError, OSError) as error:
                self.pool.clear()  # the connection may still be half open
                lost = _TemporaryError(f"connection lost: {_describe_error(error)}")
                raise _build_timeout_error(end) or lost from None
            finally:
                response.close()
        return b"".join(chunks)

    def _check_response_size(self, size: int) -> None:
        """Raise TooLargeError if the size exceeds MAX_BYTES."""
        if size > MAX_BYTES:
            raise TooLargeError(f"a response of more than {MAX_BYTES >> 20} MiB", where=self.host)

    def _open_response(
        self, path: str, query: Mapping[str, str] | None, limit: Limit, end: Deadline
    ) -> urllib3.BaseHTTPResponse:
        """Send a GET request and return its response with the status 200, with the body still unread.

        Rejected credentials are renewed once. Any other status raises RefusedError, ClusterError or _TemporaryError.
        """
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = self.headers()
        response = self._send_get_request(url, headers, limit, end)
        if response.status == UNAUTHORIZED and self.renew(headers):
            response.close()
            response = self._send_get_request(url, self.headers(), limit, end)
        if response.status == 200:
            self.answered.set()
            return response

        # The body explains the error
        limit.end = min(limit.end, monotonic() + ERROR_SECONDS)
        try:
            body = response.read(CHUNK, decode_content=True)
        except (HTTPError, OSError):
            body = b""
        finally:
            response.close()
        raise self._build_response_error(response, body)

    def _send_get_request(
        self, url: str, headers: urllib3.HTTPHeaderDict, limit: Limit, end: Deadline
    ) -> urllib3.BaseHTTPResponse:
        """Send a GET request and return the response with only its status and headers read.

        Raises _TemporaryError if a retry may help, and ClusterError otherwise.
        """
        seconds_left = limit.seconds_left()
        if seconds_left <= 0 or self.closed.is_set():
            raise _build_timeout_error(end) or _TemporaryError("given up")
        headers.update({"Accept": ACCEPT, "Accept-Encoding": "gzip"})
        log.debug("GET %s", url)
        try:
            with apply_limit(limit):
                return self.pool.request(
                    "GET",
                    url,
                    headers=headers,
                    timeout=urllib3.Timeout(
                        connect=min(CONNECT_SECONDS, seconds_left), read=min(limit.idle, seconds_left)
                    ),
                    preload_content=False,
                    retries=False,
                    redirect=False,
                )
        except (HTTPError, OSError) as error:
            raise self._build_request_error(error, end) from None

    def _build_response_error(self, response: urllib3.BaseHTTPResponse, body: bytes) -> Exception:
        """Build the exception for a response with a status other than 200: a temporary error if a retry may help."""
        code = response.status
        message = _parse_status_message(body) or f"HTTP {code} {response.reason or ''}".rstrip()
        if code == UNAUTHORIZED:
            hint = "check the credentials of this kubeconfig context"
            what = f"the API server does not accept these credentials: {message}"
            return UnauthorizedError(what, where=self.host, hint=hint)
        if code in RETRIED_CODES:
            return _TemporaryError(f"the API server answers {code}: {message}", seconds=_parse_retry_after(response))
        if 300 <= code < 400:
            return ClusterError(f"not an API server, since it redirects ({code})", where=self.host)
        return RefusedError(code, message)

    def _build_request_error(self, error: Exception, end: Deadline) -> Exception:
        """Build the exception for a request that got no response: a temporary error unless the settings are wrong."""
        if isinstance(error, LocationValueError):
            return ClusterError(f"not a server address: {error}", where=self.host, hint="see the kubeconfig")
        if isinstance(error, SSLError) or isinstance(getattr(error, "reason", None), SSLError):
            hint = "check certificate-authority and the address in the kubeconfig"
            return ClusterError(f"no trusted connection: {_describe_error(error)}", where=self.host, hint=hint)
        is_unreachable = isinstance(error, NewConnectionError)
        what = "cannot be reached" if is_unreachable else "no answer"
        failure = _TemporaryError(f"{what}: {_describe_error(error)}", at_once=is_unreachable)
        return _build_timeout_error(end) or failure


class Deadline(NamedTuple):
    """The deadline of a response."""

    at: float
    """The deadline by the monotonic clock."""
    seconds: float
    """The number of seconds that were allowed."""

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline that many seconds from now."""
        return cls(monotonic() + seconds, seconds)


class _TemporaryError(Exception):
    """A temporary error, after which the request may be retried.

    The next try waits for at least ``seconds``. With ``at_once``, there is no next try if the server has never
    answered.
    """

    def __init__(self, what: str, *, seconds: float = 0.0, at_once: bool = False, hint: str = "") -> None:
        self.seconds = seconds
        self.at_once = at_once
        self.hint = hint
        super().__init__(what)


def quote_segment(name: str) -> str:
    """Quote a name as one segment of a URL path.

    Raises InputError for a name that no object can have. Upstream: apimachinery/pkg/api/validation/path.
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise InputError(f"{name[:100]!r} is not an object name")
    return quote(name, safe="")


def _iter_lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the complete, non-empty lines of a response, until it ends or reading times out between two lines.

    Raises BrokenOffError if a line is too long or incomplete when reading times out.
    """
    chunks = response.read_chunked(CHUNK, decode_content=True) if response.chunked else _iter_chunks(response)
    parts = [b""]  # of the incomplete line
    size = 0
    try:
        for chunk in chunks:
            line_end, *next_lines = chunk.split(b"\n")
            parts.append(line_end)
            size += len(line_end)
            if size > MAX_BYTES:
                raise BrokenOffError(f"a line of more than {MAX_BYTES >> 20} MiB")
            if next_lines:
                *complete_lines, incomplete_line = next_lines
                yield from (line for line in (b"".join(parts), *complete_lines) if line.strip())
                parts = [incomplete_line]
                size = len(incomplete_line)
    except ReadTimeoutError:
        if size:
            raise BrokenOffError("no complete line in time") from None


def describe_decoding_error(error: Exception) -> str:
    """Describe in a few words why a body could not be decoded."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = str(error)
    # msgspec raises UnicodeDecodeError up to 0.22, and a DecodeError that names UTF-8 from 0.23 on.
    if isinstance(error, UnicodeError) or "UTF-8" in text:
        return "it is not UTF-8"
    return shorten(text)


def _iter_chunks(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the body of a response in chunks as they arrive."""
    while piece := response.read1(CHUNK, decode_content=True):
        yield piece


def _parse_status_message(body: bytes) -> str:
    """Return the shortened message of the Status in the body, or "" if the body is not a Status."""
    try:
        return shorten(decode_json(body, StatusBody).message)
    except (ValueError, RecursionError):
        return ""


def shorten(text: str) -> str:
    """Collapse blanks and shorten the text to LONGEST_MESSAGE characters."""
    line = " ".join(text[: 4 * LONGEST_MESSAGE].split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}…"


def _parse_retry_after(response: urllib3.BaseHTTPResponse) -> float:
    """Return the seconds of the Retry-After header, or 0 if it is missing or invalid."""
    try:
        return urllib3.Retry().get_retry_after(response) or 0.0
    except (InvalidHeader, ValueError, OverflowError):
        return 0.0


def _build_timeout_error(end: Deadline) -> _TemporaryError | None:
    """Build a timeout error if the deadline has passed, or return None."""
    if monotonic() < end.at:
        return None
    return _TemporaryError(f"no complete response within {end.seconds:g} s", hint="--request-timeout allows more")


def _describe_error(error: BaseException) -> str:
    """Return the message of the underlying error, such as ``Connection refused``, without urllib3's wrapping."""
    context = None if error.__suppress_context__ else error.__context__
    inner = getattr(error, "reason", None) or context or error
    text = str(inner if isinstance(inner, BaseException) else error)
    wrapping, _, inside = text.rpartition("] ")
    if wrapping.count("(") > wrapping.count(")"):  # "Failed to resolve 'x' ([Errno -2] Name or service not known)"
        inside = inside.removesuffix(")")
    words = inside.rpartition("Failed to establish a new connection: ")[2]
    return shorten(words) or type(error).__name__
