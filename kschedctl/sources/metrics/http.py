"""GET requests for metrics, which go only to the given URL, are limited in time and size, and follow no redirects."""

from __future__ import annotations

import re
import ssl
import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, LocationValueError, SSLError

from kschedctl.errors import ClusterError, InputError, UsageError
from kschedctl.sources.live.http import RefusedError, shorten
from kschedctl.sources.live.limits import Limit, apply_limit, enforce_limits
from kschedctl.text.printable import strip_url

if TYPE_CHECKING:
    from kschedctl.sources.live.connection import Connection

SECONDS, READ_SECONDS, IDLE_SECONDS = 30.0, 30.0, 10.0
"""The time limits of a request, of a single read, and between two reads."""
MAX_BYTES = 64 << 20
"""The maximum size of a response."""
CHUNK_SIZE = 1 << 16
MAX_TOKEN_LENGTH = 1 << 16
PROXY = re.compile(r"/api/v1/namespaces/[^/]+/(pods|services)/[^/]+/proxy(/|$)")
HINTS = {
    401: "pass a bearer token with --metrics-token-file FILE",
    403: "the token's account needs to get the nonResourceURL /metrics",
}


@dataclass
class MetricsAccess:
    """Access to servers of metrics."""

    connect: Callable[[], Connection]
    """A function that connects to the API server of the kubeconfig."""
    token_file: str | None = None
    ca_file: str | None = None
    insecure: bool = False
    seconds: float = SECONDS
    _pool: urllib3.PoolManager | None = field(default=None, repr=False)
    _connection: Connection | None = field(default=None, repr=False)
    """The connection to the API server, once it was needed."""

    def get(self, url: str, query: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """Send a GET request, and return the status and the body.

        The kubeconfig's credentials are used if the URL goes through a service or pod proxy of the API server.

        Raises ClusterError if the server does not answer, redirects or denies the request. Raises UsageError if the URL
        is not an HTTP URL with a host, and InputError if the token or CA file cannot be used.
        """
        if not _is_server_url(url):
            raise UsageError(f"not a server address: {strip_url(url)}", hint="http:// or https:// and a host")
        connection = self._find_proxy_connection(url)
        if connection is not None:
            return self._send_request_by_proxy(connection, url, query)
        return self._send_request_directly(url, query)

    def _find_proxy_connection(self, url: str) -> Connection | None:
        """Return the API server's connection if the URL goes through its service or pod proxy, otherwise None.

        The connection is made only when a URL may need it. Raises the errors of ``connect``.
        """
        # Most URLs need no connection. The path of a proxy may follow the path of the API server's own URL.
        if not PROXY.search(urlsplit(url).path):
            return None
        if self._connection is None:
            self._connection = self.connect()
        connection = self._connection

        if not url.startswith(f"{connection.server.host}/"):
            return None
        path = urlsplit(url.removeprefix(connection.server.host)).path
        return connection if PROXY.match(path) else None

    def _send_request_by_proxy(
        self, connection: Connection, url: str, query: Mapping[str, str] | None
    ) -> tuple[int, bytes]:
        """Send the request through a proxy of the API server, and return the status 200 and the body.

        Raises ClusterError for any other status.
        """
        try:
            return 200, connection.server.get(url.removeprefix(connection.server.host), query)
        except RefusedError as error:
            raise ClusterError(f"answers {error.code}: {error.message}", where=strip_url(url)) from None

    def _send_request_directly(self, url: str, query: Mapping[str, str] | None) -> tuple[int, bytes]:
        """Send the request to the URL itself, and return the status and the body.

        Raises ClusterError if the server does not answer, redirects or denies the request, and InputError if the token
        or CA file cannot be used.
        """
        shown_url = strip_url(url)
        limit = Limit(monotonic() + self.seconds, IDLE_SECONDS)
        headers = self._build_headers(url)
        request_url = _remove_credentials(url)
        if query:
            request_url = f"{request_url}?{urlencode(query)}"
        try:
            with apply_limit(limit), warnings.catch_warnings():
                warnings.simplefilter("ignore", InsecureRequestWarning)  # the user chose --metrics-insecure
                response = self._get_pool_manager().request(
                    "GET",
                    request_url,
                    headers=headers,
                    timeout=urllib3.Timeout(
                        connect=min(IDLE_SECONDS, self.seconds), read=min(READ_SECONDS, self.seconds)
                    ),
                    preload_content=False,
                    retries=False,
                    redirect=False,
                )
            try:
                body = _read_body(response, shown_url)
            finally:
                response.close()
        except (HTTPError, OSError) as error:
            raise _build_connection_error(error, shown_url, limit, self.seconds) from None
        if 300 <= response.status < 400:
            raise ClusterError(f"redirects elsewhere ({response.status}), which is not followed", where=shown_url)
        if response.status in HINTS:
            raise ClusterError(f"answers {response.status}", where=shown_url, hint=HINTS[response.status])
        return response.status, body

    def _build_headers(self, url: str) -> dict[str, str]:
        """Build the headers, with the token of the token file or else the credentials of the URL.

        Raises InputError if the token file cannot be read.
        """
        headers = {"Accept": "text/plain;version=0.0.4, application/json, */*;q=0.1", "Accept-Encoding": "identity"}
        parts = urlsplit(url)
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            headers["Authorization"] = f"Basic {b64encode(credentials).decode()}"
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {_read_token(self.token_file)}"
        return headers

    def _get_pool_manager(self) -> urllib3.PoolManager:
        """Return the connection pool, which is created on first use. Raises InputError for an invalid CA file."""
        if self._pool is None:
            try:
                context = ssl.create_default_context(cafile=self.ca_file)
            except (OSError, ValueError) as error:
                message = getattr(error, "strerror", None) or "no PEM certificates"
                raise InputError(message, where=str(self.ca_file), hint="--metrics-ca-file") from None
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self._pool = enforce_limits(urllib3.PoolManager(num_pools=2, ssl_context=context))
        return self._pool


def _is_server_url(url: str) -> bool:
    """Return whether ``url`` is an HTTP or HTTPS URL with a host and a valid port, if it names one."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _remove_credentials(url: str) -> str:
    """Return the URL without user and password, and without a fragment."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def _read_body(response: urllib3.BaseHTTPResponse, shown_url: str) -> bytes:
    """Read the body of a response. Raises ClusterError if it is too large."""
    chunks = []
    size = 0
    while chunk := response.read(CHUNK_SIZE, decode_content=False):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise ClusterError(f"a response of more than {MAX_BYTES >> 20} MiB", where=shown_url)
    return b"".join(chunks)


def _read_token(path: str) -> str:
    """Read the bearer token in a file.

    Raises InputError if the file cannot be read or does not contain one word of at most MAX_TOKEN_LENGTH characters.
    The message does not show the token.
    """
    try:
        with Path(path).open("rb") as file:
            token = file.read(MAX_TOKEN_LENGTH + 1).decode("ascii").strip()
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or "not ASCII, so not a token"
        raise InputError(message, where=path, hint="--metrics-token-file") from None
    is_one_word = token.isprintable() and " " not in token
    if not token or len(token) > MAX_TOKEN_LENGTH or not is_one_word:
        raise InputError("not a bearer token, which is one word", where=path, hint="--metrics-token-file")
    return token


def _build_connection_error(error: Exception, shown_url: str, limit: Limit, seconds: float) -> ClusterError:
    """Build the error for a server that cannot be reached, is not trusted or does not answer in time."""
    if limit.seconds_left() <= 0:
        return ClusterError(f"no complete response within {seconds:g} s", where=shown_url)
    if isinstance(error, LocationValueError):
        return ClusterError("not a server address", where=shown_url)
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, BaseException) else error)
    # The cause ends a text such as "…: Failed to establish a new connection: [Errno 111] Connection refused"
    # or "…: Failed to resolve 'x' ([Errno -2] Name or service not known)".
    _host, _phrase, details = text.rpartition("Failed to establish a new connection: ")
    prefix, _bracket, cause = details.rpartition("] ")
    is_in_parentheses = prefix.count("(") > prefix.count(")")
    if is_in_parentheses:
        cause = cause.removesuffix(")")
    message = strip_url(shorten(cause or text)) or type(error).__name__
    if isinstance(error, SSLError) or isinstance(reason, SSLError):
        hint = "pass its certificate authority with --metrics-ca-file, or skip the check with --metrics-insecure"
        return ClusterError(f"no trusted connection: {message}", where=shown_url, hint=hint)
    return ClusterError(f"cannot be reached: {message}", where=shown_url)
