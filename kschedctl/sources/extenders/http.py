"""Calls of extenders over HTTP as kube-scheduler makes them, with limits on time and size.

Only the configuration's URLs are called. Errors of the scheduler's client are raised as ExtenderError with the same
message. If the scheduler's own call might end differently, because the extender is not reachable from here or because
we stop reading, UnknownAnswerError is raised. Upstream: HTTPExtender.send in pkg/scheduler/extender.go (v1.36),
net/http of Go.
"""

from __future__ import annotations

import re
import zlib
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from kschedctl.api.json_values import JsonObject
from kschedctl.scheduler.engine.extenders.answers import ExtenderError
from kschedctl.scheduler.engine.extenders.extender import Extender, UnknownAnswerError
from kschedctl.scheduler.framework.strict_decoding import decode_strictly
from kschedctl.sources.extenders.go_json import decode_first_value
from kschedctl.sources.extenders.tls import build_tls_context
from kschedctl.sources.live.http import shortened
from kschedctl.sources.live.limits import Limit, limited, with_limits
from kschedctl.text.printable import strip_url

DEFAULT_SECONDS, MOST_SECONDS = 5.0, 300.0
MOST_BYTES = 64 << 20
CHUNK = 1 << 16
GZIP = 16
"""The number that is added to zlib's window bits to select the gzip format."""
TOO_MUCH = "were not all heard: {} answers with more than {} MiB"
REDIRECTIONS = frozenset({301, 302, 303, 307, 308})


class HTTPCaller:
    """A caller of extenders that keeps the connections to each of them open."""

    def __init__(self) -> None:
        self._pools: dict[str, urllib3.PoolManager] = {}

    def __call__(self, extender: JsonObject, verb: str, payload: JsonObject) -> tuple[int, object]:
        """Call an extender and return HTTP status and body.

        Raises ExtenderError, UnknownAnswerError, and InputError for unusable TLS settings.
        """
        settings = decode_strictly(extender, Extender)
        url = f"{settings.url_prefix.rstrip('/')}/{verb}"
        scheme = urlsplit(url).scheme
        if scheme not in ("http", "https"):
            raise ExtenderError(f'Post "{strip_url(url)}": unsupported protocol scheme "{scheme}"')
        return self._post(url, settings, msgspec.json.encode(payload))

    def _post(self, url: str, settings: Extender, body: bytes) -> tuple[int, object]:
        """Send a POST request and return status and body. Raises ExtenderError, UnknownAnswerError, InputError."""
        shown_url = strip_url(url)
        seconds = min(max(settings.http_timeout, 0.0) or DEFAULT_SECONDS, MOST_SECONDS)
        limit = Limit(monotonic() + seconds, seconds)
        try:
            with limited(limit):
                response = self._get_pool(settings).request(
                    "POST",
                    url,
                    body=body,
                    headers=_build_headers(url),
                    timeout=urllib3.Timeout(total=seconds),
                    preload_content=False,
                    retries=False,
                    redirect=False,
                )
        except (ConnectTimeoutError, NewConnectionError, SSLError, LocationValueError) as error:
            raise UnknownAnswerError(f"were not all reached from here: {shown_url}: {_describe_error(error)}") from None
        except (HTTPError, OSError) as error:
            raise ExtenderError(_describe_failure(shown_url, error, limit)) from None
        try:
            return _read_answer(response, shown_url, limit)
        finally:
            response.close()

    def _get_pool(self, settings: Extender) -> urllib3.PoolManager:
        """Return the connection pool of an extender, creating it at first. Raises InputError."""
        key = repr(settings)
        if key not in self._pools:
            tls: dict[str, Any] = {}
            if settings.url_prefix.startswith("https:"):
                tls["ssl_context"] = build_tls_context(settings, strip_url(settings.url_prefix))
                if settings.tls_config and settings.tls_config.server_name:
                    tls["server_hostname"] = settings.tls_config.server_name
            self._pools[key] = with_limits(urllib3.PoolManager(num_pools=1, **tls))
        return self._pools[key]


def _build_headers(url: str) -> dict[str, str]:
    """Build the headers of a request, with the credentials in the URL."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    parts = urlsplit(url)
    if parts.username is not None:
        headers |= urllib3.make_headers(basic_auth=f"{unquote(parts.username)}:{unquote(parts.password or '')}")
    return headers


def _read_answer(response: urllib3.BaseHTTPResponse, shown_url: str, limit: Limit) -> tuple[int, object]:
    """Read status and body of a response. Raises ExtenderError, UnknownAnswerError."""
    if response.status in REDIRECTIONS and response.headers.get("Location"):
        raise UnknownAnswerError(f"were not all heard: {shown_url} redirects elsewhere, which is not followed")
    if response.status != 200:
        return response.status, None
    chunks, size = [], 0
    try:
        while chunk := response.read(CHUNK, decode_content=False):
            chunks.append(chunk)
            size += len(chunk)
            if size > MOST_BYTES:
                raise UnknownAnswerError(TOO_MUCH.format(shown_url, MOST_BYTES >> 20))
    except (HTTPError, OSError) as error:
        timed_out = isinstance(error, ReadTimeoutError) or limit.left() <= 0
        timeout_message = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        raise ExtenderError(timeout_message if timed_out else "unexpected EOF") from None
    return 200, decode_first_value(_decompress(b"".join(chunks), response, shown_url))


def _decompress(body: bytes, response: urllib3.BaseHTTPResponse, shown_url: str) -> bytes:
    """Return the body, decompressed if it is in the gzip format, which Go's client requests.

    Raises ExtenderError, UnknownAnswerError.
    """
    if response.headers.get("Content-Encoding", "").lower() != "gzip" or not body:
        return body
    stream = zlib.decompressobj(zlib.MAX_WBITS + GZIP)
    try:
        unpacked = stream.decompress(body, MOST_BYTES)
    except zlib.error:
        raise ExtenderError("gzip: invalid header") from None
    if stream.unconsumed_tail:
        raise UnknownAnswerError(TOO_MUCH.format(shown_url, MOST_BYTES >> 20))
    return unpacked


def _describe_failure(shown_url: str, error: Exception, limit: Limit) -> str:
    """Describe a failed request in the words of Go's client."""
    if isinstance(error, ReadTimeoutError) or limit.left() <= 0:
        reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    else:
        reason = "EOF" if "without response" in str(error) else _describe_error(error)
    return f'Post "{shown_url}": {reason}'


def _describe_error(error: BaseException) -> str:
    """Describe an error on one line, without the names of our own objects."""
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, BaseException) else error)
    description = text.rpartition("Failed to establish a new connection: ")[2] or text
    return strip_url(shortened(re.sub(r"\[Errno -?\d+\] ", "", description)))
