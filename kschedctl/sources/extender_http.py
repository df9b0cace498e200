"""Calls of extenders over HTTP as kube-scheduler makes them, with its TLS settings and limits on time and size.

Only the configuration's URLs are called. Errors of the scheduler's client are raised as ExtenderError with the same
message. If the scheduler's own call might end differently, because the extender cannot be reached from here or because
reading stops at a limit, UnknownAnswerError is raised. Upstream: HTTPExtender.send and makeTransport in
pkg/scheduler/extender.go, TLSConfigFor in client-go/transport/transport.go (v1.36), net/http and encoding/json of Go.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import tempfile
import zlib
from contextlib import suppress
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
from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.secrets import REDACTED
from kschedctl.scheduler.engine.extenders import Extender, ExtenderError, ExtenderTLSConfig, UnknownAnswerError
from kschedctl.scheduler.framework.strict_decoding import decode_strictly
from kschedctl.sources.live.http import shorten
from kschedctl.sources.live.limits import Limit, apply_limit, enforce_limits
from kschedctl.text.printable import strip_url

DEFAULT_SECONDS = 5.0
"""The time limit of a call if the configuration has none."""
MAX_SECONDS = 300.0
"""The maximum time limit of a call, whatever the configuration says."""
MAX_BODY_SIZE = 64 << 20
"""The maximum size of a body in bytes."""
CHUNK_SIZE = 1 << 16
GZIP = 16
"""The number that is added to zlib's window bits to select the gzip format."""
TOO_LARGE = "did not all answer: {} sent more than {} MiB"
"""A message for an extender's URL and a size. Its subject is "extenders"."""
REDIRECTIONS = frozenset({301, 302, 303, 307, 308})


class HTTPCaller:
    """A caller of extenders that keeps connections open."""

    def __init__(self) -> None:
        self._pools: dict[str, urllib3.PoolManager] = {}

    def __call__(self, extender: JsonObject, verb: str, payload: JsonObject) -> tuple[int, object]:
        """Call an extender and return the HTTP status, and the decoded body if the status is 200 or else None.

        Raises ExtenderError, UnknownAnswerError, and InputError for unusable TLS settings.
        """
        settings = decode_strictly(extender, Extender)
        url = f"{settings.url_prefix.rstrip('/')}/{verb}"
        scheme = urlsplit(url).scheme
        if scheme not in ("http", "https"):
            raise ExtenderError(f'Post "{strip_url(url)}": unsupported protocol scheme "{scheme}"')
        return self._post_payload(url, settings, msgspec.json.encode(payload))

    def _post_payload(self, url: str, settings: Extender, body: bytes) -> tuple[int, object]:
        """POST the body, and return the status and the decoded answer. The answer is None unless the status is 200.

        The call may take the extender's httpTimeout, but at most MAX_SECONDS. Raises UnknownAnswerError if the extender
        cannot be reached from here, ExtenderError if the request fails as it would for kube-scheduler, and InputError
        if the TLS settings are invalid.
        """
        shown_url = strip_url(url)  # without credentials
        timeout = settings.http_timeout if settings.http_timeout > 0 else DEFAULT_SECONDS
        seconds = min(timeout, MAX_SECONDS)
        limit = Limit(monotonic() + seconds, seconds)
        try:
            with apply_limit(limit):
                response = self._get_connection_pool(settings).request(
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

    def _get_connection_pool(self, settings: Extender) -> urllib3.PoolManager:
        """Return the connection pool of an extender, which is created on first use.

        Raises InputError if the TLS settings are invalid.
        """
        key = repr(settings)  # the settings are not hashable
        if key not in self._pools:
            tls: dict[str, Any] = {}
            if settings.url_prefix.startswith("https:"):
                tls["ssl_context"] = build_tls_context(settings, strip_url(settings.url_prefix))
                if settings.tls_config and settings.tls_config.server_name:
                    tls["server_hostname"] = settings.tls_config.server_name
            self._pools[key] = enforce_limits(urllib3.PoolManager(num_pools=1, **tls))
        return self._pools[key]


def _build_headers(url: str) -> dict[str, str]:
    """Build the headers of a request, with basic authentication if the URL contains credentials."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    parts = urlsplit(url)
    if parts.username is not None:
        headers |= urllib3.make_headers(basic_auth=f"{unquote(parts.username)}:{unquote(parts.password or '')}")
    return headers


def _read_answer(response: urllib3.BaseHTTPResponse, shown_url: str, limit: Limit) -> tuple[int, object]:
    """Read the status and the decoded body of a response. The body is None unless the status is 200.

    Raises ExtenderError if the body is malformed, cut off or not complete in time. Raises UnknownAnswerError for a
    redirect, and for a body of more than MAX_BODY_SIZE.
    """
    if response.status in REDIRECTIONS and response.headers.get("Location"):
        raise UnknownAnswerError(f"did not all answer: {shown_url} redirects elsewhere, which is not followed")
    if response.status != 200:
        return response.status, None
    chunks = []
    size = 0
    try:
        while chunk := response.read(CHUNK_SIZE, decode_content=False):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BODY_SIZE:
                raise UnknownAnswerError(TOO_LARGE.format(shown_url, MAX_BODY_SIZE >> 20))
    except (HTTPError, OSError) as error:
        if isinstance(error, ReadTimeoutError) or limit.seconds_left() <= 0:
            message = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        else:
            message = "unexpected EOF"
        raise ExtenderError(message) from None
    return 200, decode_first_value(_decompress_body(b"".join(chunks), response, shown_url))


def _decompress_body(body: bytes, response: urllib3.BaseHTTPResponse, shown_url: str) -> bytes:
    """Return the body, decompressed if its Content-Encoding is gzip, as Go's client does.

    Raises ExtenderError if the body is not gzip, and UnknownAnswerError if it expands to more than MAX_BODY_SIZE.
    """
    if response.headers.get("Content-Encoding", "").lower() != "gzip" or not body:
        return body
    stream = zlib.decompressobj(zlib.MAX_WBITS + GZIP)
    try:
        unpacked = stream.decompress(body, MAX_BODY_SIZE)
    except zlib.error:
        raise ExtenderError("gzip: invalid header") from None
    if stream.unconsumed_tail:
        raise UnknownAnswerError(TOO_LARGE.format(shown_url, MAX_BODY_SIZE >> 20))
    return unpacked


def _describe_failure(shown_url: str, error: Exception, limit: Limit) -> str:
    """Describe why a request got no response, such as a timeout, in the words of Go's client."""
    if isinstance(error, ReadTimeoutError) or limit.seconds_left() <= 0:
        reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    elif "without response" in str(error):  # urllib3's words for a connection that the server closed
        reason = "EOF"
    else:
        reason = _describe_error(error)
    return f'Post "{shown_url}": {reason}'


def _describe_error(error: BaseException) -> str:
    """Describe the cause of a urllib3 error on one line, without the names of urllib3's objects and error numbers."""
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, BaseException) else error)
    description = text.rpartition("Failed to establish a new connection: ")[2] or text
    return strip_url(shorten(re.sub(r"\[Errno -?\d+\] ", "", description)))


_BLANK = " \t\r\n"
_STRINGS = re.compile(r'"(?:\\.|[^"\\])*"')
_GO_CONTEXTS = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
}
"""Message of Python's JSON decoder -> the words with which Go's decoder says where the character is invalid."""


def decode_first_value(body: bytes) -> object:
    """Decode the first JSON value and ignore the rest, as Go does on a stream.

    Raises ExtenderError with Go's message if the value is malformed.
    """
    text = body.decode("utf-8", errors="replace").lstrip(_BLANK)
    if not text:
        raise ExtenderError("EOF")
    try:
        return json.JSONDecoder(parse_constant=_reject_constant).raw_decode(text)[0]
    except json.JSONDecodeError as error:
        raise ExtenderError(_describe_json_error(text, error)) from None
    except RecursionError:
        raise ExtenderError("exceeded max depth") from None
    except ValueError:  # Python refuses to parse an integer of more than 4300 digits
        raise ExtenderError("json: cannot unmarshal number into Go value of type int64") from None


def _reject_constant(name: str) -> object:
    """Raise ExtenderError for NaN and Infinity, which are not valid JSON."""
    raise ExtenderError(f"invalid character '{name[0]}' looking for beginning of value")


def _describe_json_error(text: str, error: json.JSONDecodeError) -> str:
    """Describe an error of Python's JSON decoder in the words of Go's decoder."""
    if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
        return "unexpected EOF"
    character = text[error.pos]
    context = _GO_CONTEXTS.get(error.msg) or f"after {_describe_preceding_element(text[: error.pos])}"
    return f"invalid character {character!r} {context}"


def _describe_preceding_element(preceding_text: str) -> str:
    """Return Go's words for the element before the invalid character, which a comma should have followed.

    The element is an item of an array or a key-value pair of an object.
    """
    # Brackets in strings do not count
    open_brackets: list[str] = []
    for bracket in re.findall(r"[\[\]{}]", _STRINGS.sub("", preceding_text)):
        if bracket in "[{":
            open_brackets.append(bracket)
        elif open_brackets:
            open_brackets.pop()
    return "array element" if open_brackets and open_brackets[-1] == "[" else "object key:value pair"


_REDACTED_DATA = base64.b64decode(REDACTED)
"""The data in place of a key that was left out when the cluster was saved."""


def build_tls_context(settings: Extender, url: str) -> ssl.SSLContext:
    """Build the TLS context for an extender's configuration, in which inline data take precedence over files.

    The server's certificate is not verified if tlsConfig is insecure, or if enableHTTPS is set without a CA. Raises
    InputError if the settings cannot be used. The message contains no key.
    """
    tls = settings.tls_config or ExtenderTLSConfig()
    for data in (tls.ca_data, tls.cert_data, tls.key_data):
        if data == _REDACTED_DATA:
            what = "its TLS keys were removed when the cluster was saved"
            raise InputError(what, where=url, hint="pass the original configuration with --config")
    try:
        context = _build_verifying_context(tls)
        has_root_certificates = bool(tls.ca_data or tls.ca_file)
        if tls.insecure or (settings.enable_https and not has_root_certificates):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _load_client_certificate(context, tls)
    except (OSError, ValueError) as error:
        message = str(error)
        if isinstance(error, OSError):
            message = error.strerror or "no PEM certificates and key"
        raise InputError(f"its tlsConfig cannot be used: {message}", where=url) from None
    return context


def _build_verifying_context(tls: ExtenderTLSConfig) -> ssl.SSLContext:
    """Build a context that verifies the server with the configured CA or the system's CAs."""
    if tls.ca_data:
        return ssl.create_default_context(cadata=tls.ca_data.decode("ascii"))
    return ssl.create_default_context(cafile=tls.ca_file or None)


def _load_client_certificate(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    """Load the client certificate into the context, if there is one.

    The ssl module reads certificates only from files. Inline data is therefore written to a private temporary file,
    which is deleted as soon as it has been loaded.
    """
    if not (tls.cert_data or tls.cert_file):
        return
    if not (tls.cert_data or tls.key_data):
        context.load_cert_chain(tls.cert_file, tls.key_file or None)
        return
    parts = [tls.cert_data or _read_file(tls.cert_file), tls.key_data or _read_file(tls.key_file)]
    file, path = tempfile.mkstemp(prefix="kschedctl-")
    try:
        with open(file, "wb") as written:
            written.write(b"\n".join(parts))
        context.load_cert_chain(path)
    finally:
        with suppress(OSError):
            os.unlink(path)


def _read_file(path: str) -> bytes:
    """Return the content of a file. Raises OSError if the file cannot be read."""
    with open(path, "rb") as file:
        return file.read()
