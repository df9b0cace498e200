"""GET requests for metrics: at the URL that was named alone, bounded in time and size, redirected nowhere.

Credentials go where the user sends them: those of the URL and of --metrics-token-file to that URL, those of the
kubeconfig only to its own API server, where the URL is a proxy of that.
"""

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
from kschedctl.sources.live.http import RefusedError, shortened
from kschedctl.sources.live.limits import Limit, limited, with_limits
from kschedctl.text.urls import strip_url

if TYPE_CHECKING:
    from kschedctl.sources.live.connection import Connection

SECONDS, IDLE_SECONDS, MOST_BYTES, CHUNK = 30.0, 10.0, 64 << 20, 1 << 16
LONGEST_TOKEN = 1 << 16
PROXY = re.compile(r"/api/v1/namespaces/[^/]+/(pods|services)/[^/]+/proxy(/|$)")
HINTS = {
    401: "--metrics-token-file names a file with a bearer token",
    403: "the token's account needs to get the nonResourceURL /metrics",
}


@dataclass
class MetricsAccess:
    """How servers of metrics are asked. ``connect`` gives the way to the API server of the kubeconfig."""

    connect: Callable[[], Connection]
    token_file: str | None = None
    ca_file: str | None = None
    insecure: bool = False
    seconds: float = SECONDS
    _pool: urllib3.PoolManager | None = field(default=None, repr=False)
    _ways: dict[str, Connection] = field(default_factory=dict, repr=False)

    def get(self, url: str, query: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """Status and body. Raises ClusterError, InputError, UsageError."""
        if not _names_a_server(url):
            raise UsageError(f"not a server address: {strip_url(url)}", hint="http:// or https:// and a host")
        through = self._api_server(url)
        if through is not None:
            return self._proxied(through, url, query)
        return self._direct(url, query)

    def _api_server(self, url: str) -> Connection | None:
        """The way to the API server whose proxy the URL names, None for other URLs. Raises as ``connect``."""
        if not PROXY.search(urlsplit(url).path):
            return None
        if "api" not in self._ways:
            self._ways["api"] = self.connect()
        connection = self._ways["api"]
        inside = url.startswith(f"{connection.server.host}/")
        return connection if inside and PROXY.match(urlsplit(url[len(connection.server.host) :]).path) else None

    def _proxied(self, through: Connection, url: str, query: Mapping[str, str] | None) -> tuple[int, bytes]:
        try:
            return 200, through.server.get(url[len(through.server.host) :], query)
        except RefusedError as error:
            raise ClusterError(f"answers {error.code}: {error.message}", where=strip_url(url)) from None

    def _direct(self, url: str, query: Mapping[str, str] | None) -> tuple[int, bytes]:
        shown, limit = strip_url(url), Limit(monotonic() + self.seconds, IDLE_SECONDS)
        headers = self._headers(url)
        try:
            with limited(limit), warnings.catch_warnings():
                warnings.simplefilter("ignore", InsecureRequestWarning)  # the user knows: --metrics-insecure
                response = self._manager().request(
                    "GET",
                    f"{_without_user(url)}?{urlencode(query)}" if query else _without_user(url),
                    headers=headers,
                    timeout=urllib3.Timeout(connect=min(IDLE_SECONDS, self.seconds), read=min(30.0, self.seconds)),
                    preload_content=False,
                    retries=False,
                    redirect=False,
                )
            try:
                body = _body(response, shown)
            finally:
                response.close()
        except (HTTPError, OSError) as error:
            raise _unreached(error, shown, limit, self.seconds) from None
        if 300 <= response.status < 400:
            raise ClusterError(f"redirects elsewhere ({response.status}), which is not followed", where=shown)
        if response.status in HINTS:
            raise ClusterError(f"answers {response.status}", where=shown, hint=HINTS[response.status])
        return response.status, body

    def _headers(self, url: str) -> dict[str, str]:
        headers = {"Accept": "text/plain;version=0.0.4, application/json, */*;q=0.1", "Accept-Encoding": "identity"}
        parts = urlsplit(url)
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            headers["Authorization"] = f"Basic {b64encode(credentials).decode()}"
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {_token(self.token_file)}"
        return headers

    def _manager(self) -> urllib3.PoolManager:
        """Raises InputError for a CA that is none."""
        if self._pool is None:
            try:
                context = ssl.create_default_context(cafile=self.ca_file)
            except (OSError, ValueError) as error:
                what = getattr(error, "strerror", None) or "no PEM certificates"
                raise InputError(what, where=str(self.ca_file), hint="--metrics-ca-file") from None
            if self.insecure:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._pool = with_limits(urllib3.PoolManager(num_pools=2, ssl_context=context))
        return self._pool


def _names_a_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def _body(response: urllib3.BaseHTTPResponse, shown: str) -> bytes:
    chunks, size = [], 0
    while chunk := response.read(CHUNK, decode_content=False):
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            raise ClusterError(f"a response of more than {MOST_BYTES >> 20} MiB", where=shown)
    return b"".join(chunks)


def _token(path: str) -> str:
    """The bearer token in a file. Raises InputError, which does not show it."""
    try:
        with Path(path).open("rb") as file:
            token = file.read(LONGEST_TOKEN + 1).decode("ascii").strip()
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or "not ASCII: no token"
        raise InputError(what, where=path, hint="--metrics-token-file") from None
    if not token or len(token) > LONGEST_TOKEN or not token.isprintable() or " " in token:
        raise InputError("no bearer token: want one word", where=path, hint="--metrics-token-file")
    return token


def _unreached(error: Exception, shown: str, limit: Limit, seconds: float) -> ClusterError:
    if limit.left() <= 0:
        return ClusterError(f"no complete response within {seconds:g} s", where=shown)
    if isinstance(error, LocationValueError):
        return ClusterError("not a server address", where=shown)
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, BaseException) else error)
    wrapping, _, words = text.rpartition("Failed to establish a new connection: ")[2].rpartition("] ")
    if wrapping.count("(") > wrapping.count(")"):  # "Failed to resolve 'x' ([Errno -2] Name or service not known)"
        words = words.removesuffix(")")
    what = strip_url(shortened(words or text)) or type(error).__name__
    if isinstance(error, SSLError) or isinstance(reason, SSLError):
        hint = "--metrics-ca-file names its authority; --metrics-insecure checks nothing"
        return ClusterError(f"no trusted connection: {what}", where=shown, hint=hint)
    return ClusterError(f"cannot be reached: {what}", where=shown)
