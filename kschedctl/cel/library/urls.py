"""URLs, parsed as strictly as Go parses those of requests.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/urls.go (v1.36) and net/url of Go's standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from kschedctl.cel.errors import CelError, accepts_values_of
from kschedctl.cel.values import Map, Opaque, Value

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"\x80-\U0010ffff%]*")
_PORT = re.compile(r"(:[0-9]*)?")
_IN_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]%]*")
_SAFE_IN_PATH = "$&+,/:;=@-_.~"


@dataclass(frozen=True, slots=True)
class URL:
    """The parts of a URL."""

    scheme: str
    user: str
    host: str
    path: str
    """Escaped."""
    query: str
    fragment: str
    opaque: str = ""

    def hostname(self) -> str:
        """Return the host without port and brackets."""
        host = _PORT_AT_END.sub("", self.host)
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    def port(self) -> str:
        """Return the port, or ""."""
        match = _PORT_AT_END.search(self.host)
        return match[1] if match else ""


_PORT_AT_END = re.compile(r":([0-9]*)$")


def parse_request_url(text: str) -> URL:
    """Parse the URL of a request: absolute, or an absolute path, without a fragment. Raises ValueError."""
    return _parse_parts(text, "", in_request=True)


def parse_url(text: str) -> URL:
    """Parse a URL that may have a fragment. Raises ValueError."""
    parse_request_url(text)
    before, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        raise ValueError("invalid URL escape")
    return _parse_parts(before, fragment, in_request=False)


def _parse_parts(text: str, fragment: str, in_request: bool) -> URL:
    """Parse a URL without its fragment. Raises ValueError with Go's message."""
    if any(c < " " or c == "\x7f" for c in text):
        raise ValueError("invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text == "*":
        return URL("", "", "", text, "", "")
    scheme, rest = _split_scheme(text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return URL(scheme, "", "", "", query, fragment, rest)
    user = host = ""
    if rest.startswith("//") and (scheme or not (in_request or rest.startswith("///"))):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        user, host = _split_authority(authority)
    return URL(scheme, user, host, _escape_path(rest), query, fragment)


def _split_scheme(text: str) -> tuple[str, str]:
    """Split off the scheme, in lower case, or "" if there is none."""
    match = _SCHEME.match(text)
    if match is None and text.startswith(":"):
        raise ValueError("missing protocol scheme")
    return (match[1].lower(), text[match.end() :]) if match else ("", text)


def _split_authority(text: str) -> tuple[str, str]:
    """Split user information from the host. Raises ValueError if one of them is invalid."""
    user, at, host = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    if _BAD_ESCAPE.search(user) or _BAD_ESCAPE.search(host):
        raise ValueError("invalid URL escape")
    return user, _parse_host(host)


def _parse_host(text: str) -> str:
    """Check host and port, and return them unescaped. Raises ValueError."""
    if text.startswith("["):
        bracket = text.rfind("]")
        if bracket < 0:
            raise ValueError("missing ']' in host")
        port = text[bracket + 1 :]
    else:
        port = text[text.rfind(":") :] if ":" in text else ""
    if not _PORT.fullmatch(port):
        raise ValueError(f'invalid port "{port}" after host')
    if not _HOST.fullmatch(text):
        raise ValueError("invalid character in host name")
    if re.search(r"%(?!25|[89a-fA-F])", text):
        raise ValueError("invalid URL escape")
    return unquote(text)


def _escape_path(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise ValueError("invalid URL escape")
    return text if _IN_PATH.fullmatch(text) else quote(unquote(text), safe=_SAFE_IN_PATH)


def to_url(text: str) -> Opaque:
    """Parse a URL. Raises CelError."""
    try:
        return Opaque("kubernetes.URL", parse_url(text))
    except ValueError as error:
        fault = f'parse "{text}": {error}'
        raise CelError(f"URL parse error during conversion from string: {fault}") from None


def parse_query(value: Opaque) -> Map:
    """Return the values of each name in the query. Badly escaped parts are left out."""
    values: dict[str, list[str]] = {}
    for piece in value.held.query.split("&"):
        if not piece or ";" in piece or _BAD_ESCAPE.search(piece):
            continue
        name, _, text = piece.partition("=")
        values.setdefault(unquote_plus(name), []).append(unquote_plus(text))
    return Map(values.items())


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "url(string) kubernetes.URL": to_url,
    "isURL(string) bool": accepts_values_of(parse_request_url),
    "{kubernetes.URL}.getScheme() string": lambda value: value.held.scheme,
    "{kubernetes.URL}.getHost() string": lambda value: value.held.host,
    "{kubernetes.URL}.getHostname() string": lambda value: value.held.hostname(),
    "{kubernetes.URL}.getPort() string": lambda value: value.held.port(),
    "{kubernetes.URL}.getEscapedPath() string": lambda value: value.held.path,
    "{kubernetes.URL}.getQuery() map(string, list(string))": parse_query,
}
