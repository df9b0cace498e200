"""Extenders asked over HTTP as kube-scheduler asks them: bounded in time and size, at the configuration's URLs alone.

What the scheduler would make an error is one here, in its words (ExtenderError). Where its own call could end otherwise
than ours, because nothing is reached from here or because we stop reading, nobody knows (UnknownAnswerError).
Upstream: HTTPExtender.send in pkg/scheduler/extender.go (v1.36), net/http of Go.
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
from kschedctl.scheduler.engine.extenders.extender import UnknownAnswerError
from kschedctl.scheduler.engine.extenders.settings import Extender
from kschedctl.scheduler.framework.strict_decoding import decode_strictly
from kschedctl.sources.extenders.go_json import decoded
from kschedctl.sources.extenders.tls import tls_context
from kschedctl.sources.live.http import shortened
from kschedctl.sources.live.limits import Limit, limited, with_limits
from kschedctl.text.urls import strip_url

DEFAULT_SECONDS, MOST_SECONDS = 5.0, 300.0
MOST_BYTES = 64 << 20
CHUNK = 1 << 16
GZIP = 16
"""What zlib adds to its window bits for that format."""
TOO_MUCH = "were not all heard: {} answers with more than {} MiB"
REDIRECTIONS = frozenset({301, 302, 303, 307, 308})


class HTTPCaller:
    """Asks extenders; the connections to each are kept."""

    def __init__(self) -> None:
        self._pools: dict[str, urllib3.PoolManager] = {}

    def __call__(self, extender: JsonObject, verb: str, payload: JsonObject) -> tuple[int, object]:
        """HTTP status and body. Raises ExtenderError, UnknownAnswerError, and InputError for TLS settings of no use."""
        settings = decode_strictly(extender, Extender)
        url = f"{settings.url_prefix.rstrip('/')}/{verb}"
        scheme = urlsplit(url).scheme
        if scheme not in ("http", "https"):
            raise ExtenderError(f'Post "{strip_url(url)}": unsupported protocol scheme "{scheme}"')
        return self._post(url, settings, msgspec.json.encode(payload))

    def _post(self, url: str, settings: Extender, body: bytes) -> tuple[int, object]:
        shown = strip_url(url)
        seconds = min(max(settings.http_timeout, 0.0) or DEFAULT_SECONDS, MOST_SECONDS)
        limit = Limit(monotonic() + seconds, seconds)
        try:
            with limited(limit):
                response = self._pool(settings).request(
                    "POST",
                    url,
                    body=body,
                    headers=_headers(url),
                    timeout=urllib3.Timeout(total=seconds),
                    preload_content=False,
                    retries=False,
                    redirect=False,
                )
        except (ConnectTimeoutError, NewConnectionError, SSLError, LocationValueError) as error:
            raise UnknownAnswerError(f"were not all reached from here: {shown}: {_words(error)}") from None
        except (HTTPError, OSError) as error:
            raise ExtenderError(_failure(shown, error, limit)) from None
        try:
            return _answer(response, shown, limit)
        finally:
            response.close()

    def _pool(self, settings: Extender) -> urllib3.PoolManager:
        key = repr(settings)
        if key not in self._pools:
            tls: dict[str, Any] = {}
            if settings.url_prefix.startswith("https:"):
                tls["ssl_context"] = tls_context(settings, strip_url(settings.url_prefix))
                if settings.tls_config and settings.tls_config.server_name:
                    tls["server_hostname"] = settings.tls_config.server_name
            self._pools[key] = with_limits(urllib3.PoolManager(num_pools=1, **tls))
        return self._pools[key]


def _headers(url: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    parts = urlsplit(url)
    if parts.username is not None:
        headers |= urllib3.make_headers(basic_auth=f"{unquote(parts.username)}:{unquote(parts.password or '')}")
    return headers


def _answer(response: urllib3.BaseHTTPResponse, shown: str, limit: Limit) -> tuple[int, object]:
    if response.status in REDIRECTIONS and response.headers.get("Location"):
        raise UnknownAnswerError(f"were not all heard: {shown} redirects elsewhere, which is not followed")
    if response.status != 200:
        return response.status, None
    chunks, size = [], 0
    try:
        while chunk := response.read(CHUNK, decode_content=False):
            chunks.append(chunk)
            size += len(chunk)
            if size > MOST_BYTES:
                raise UnknownAnswerError(TOO_MUCH.format(shown, MOST_BYTES >> 20))
    except (HTTPError, OSError) as error:
        late = isinstance(error, ReadTimeoutError) or limit.left() <= 0
        why = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        raise ExtenderError(why if late else "unexpected EOF") from None
    return 200, decoded(_unpacked(b"".join(chunks), response, shown))


def _unpacked(body: bytes, response: urllib3.BaseHTTPResponse, shown: str) -> bytes:
    """The body: Go asks for gzip and undoes it, and so an extender may send nothing else."""
    if response.headers.get("Content-Encoding", "").lower() != "gzip" or not body:
        return body
    stream = zlib.decompressobj(zlib.MAX_WBITS + GZIP)
    try:
        unpacked = stream.decompress(body, MOST_BYTES)
    except zlib.error:
        raise ExtenderError("gzip: invalid header") from None
    if stream.unconsumed_tail:
        raise UnknownAnswerError(TOO_MUCH.format(shown, MOST_BYTES >> 20))
    return unpacked


def _failure(shown: str, error: Exception, limit: Limit) -> str:
    """A failure as Go's client words it."""
    if isinstance(error, ReadTimeoutError) or limit.left() <= 0:
        why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    else:
        why = "EOF" if "without response" in str(error) else _words(error)
    return f'Post "{shown}": {why}'


def _words(error: BaseException) -> str:
    """What happened, on one line, without our own objects' names."""
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, BaseException) else error)
    words = text.rpartition("Failed to establish a new connection: ")[2] or text
    return strip_url(shortened(re.sub(r"\[Errno -?\d+\] ", "", words)))
