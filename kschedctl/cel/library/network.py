"""IP addresses, CIDRs and URLs, which are parsed as strictly as in Go."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError, build_validity_predicate
from kschedctl.cel.values import Map, Opaque, Value

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_LINK_LOCAL_MULTICAST = ipaddress.ip_network("224.0.0.0/24")


def _parse_address(text: str) -> _Address:
    """Parse an IP address. Raises ValueError if it is invalid, has a zone, or is IPv4-mapped IPv6."""
    try:
        # Unlike Go, Python accepts digits that are not ASCII. The empty text is invalid in both.
        parsed = ipaddress.ip_address(text if text.isascii() else "")
    except ValueError:
        octets = text.split(".")
        leading_zero = len(octets) == 4 and all(octet.isdecimal() for octet in octets)
        what = "IPv4 field has octet with leading zero" if leading_zero else "unable to parse IP"
        raise ValueError(f'ParseAddr("{text}"): {what}') from None
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.scope_id is not None or "%" in text:
            raise ValueError("a zone is not allowed")
        if parsed.ipv4_mapped is not None:
            raise ValueError("IPv4-mapped IPv6 addresses are not allowed")
    return parsed


def parse_ip(text: str) -> Opaque:
    """Parse an IP address. Raises CelError if it is invalid."""
    try:
        return Opaque("net.IP", _parse_address(text))
    except ValueError as error:
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {error}') from None


def parse_cidr(text: str) -> Opaque:
    """Parse a CIDR, whose host bits may be set. Raises CelError if it is invalid."""
    first, slash, bits = text.rpartition("/")
    try:
        if not slash or not _BITS.fullmatch(bits):
            raise ValueError("no length of a prefix")
        _parse_address(first)  # stricter than `ip_interface`
        return Opaque("net.CIDR", ipaddress.ip_interface(text))
    except ValueError as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from None


def _parse_or_raise_no_overload(parse: Callable[[str], Opaque], text: str) -> Opaque:
    """Parse a string argument of a function. Raises CelError "no such overload" if it is invalid, as upstream does."""
    try:
        return parse(text)
    except CelError:
        raise CelError(NO_SUCH_OVERLOAD) from None


def _contains_ip(outer: Opaque, inner: Opaque) -> bool:
    """Return whether a CIDR contains an IP address."""
    return inner.wrapped in outer.wrapped.network


def _contains_network(outer: Opaque, inner: Opaque) -> bool:
    """Return whether a CIDR contains another CIDR."""
    outer_network, inner_network = outer.wrapped.network, inner.wrapped.network
    if outer_network.version != inner_network.version or inner_network.prefixlen < outer_network.prefixlen:
        return False
    return inner_network.network_address in outer_network


def _is_link_local_multicast(value: Opaque) -> bool:
    """Return whether the address is in 224.0.0.0/24, or in ff?2::/16 with any flags."""
    address: _Address = value.wrapped
    if address.version == 4:
        return address in _LINK_LOCAL_MULTICAST
    first_16_bits = int(address) >> 112
    bits_without_flags = first_16_bits & 0xFF0F
    return bits_without_flags == 0xFF02


def _is_global_unicast(value: Opaque) -> bool:
    """Return whether Go's netip considers the address global unicast, which includes private addresses."""
    address = value.wrapped
    is_special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    is_broadcast = str(address) == "255.255.255.255"
    return not is_special and not is_broadcast


def _mask_cidr(value: Opaque) -> Opaque:
    """Return the CIDR with the host bits cleared."""
    interface: _Interface = value.wrapped
    return Opaque("net.CIDR", ipaddress.ip_interface(str(interface.network)))


_ADDRESS_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "ip(string) net.IP": parse_ip,
    "isIP(string) bool": build_validity_predicate(parse_ip),
    "ip.isCanonical(string) bool": lambda text: str(parse_ip(text).wrapped) == text,
    "{net.IP}.family() int": lambda value: value.wrapped.version,
    "{net.IP}.isUnspecified() bool": lambda value: value.wrapped.is_unspecified,
    "{net.IP}.isLoopback() bool": lambda value: value.wrapped.is_loopback,
    "{net.IP}.isLinkLocalMulticast() bool": _is_link_local_multicast,
    "{net.IP}.isLinkLocalUnicast() bool": lambda value: value.wrapped.is_link_local,
    "{net.IP}.isGlobalUnicast() bool": _is_global_unicast,
    "cidr(string) net.CIDR": parse_cidr,
    "isCIDR(string) bool": build_validity_predicate(parse_cidr),
    "{net.CIDR}.containsIP(net.IP) bool": _contains_ip,
    "{net.CIDR}.containsIP(string) bool": lambda outer, text: _contains_ip(
        outer, _parse_or_raise_no_overload(parse_ip, text)
    ),
    "{net.CIDR}.containsCIDR(net.CIDR) bool": _contains_network,
    "{net.CIDR}.containsCIDR(string) bool": lambda outer, text: _contains_network(
        outer, _parse_or_raise_no_overload(parse_cidr, text)
    ),
    "{net.CIDR}.ip() net.IP": lambda value: Opaque("net.IP", value.wrapped.ip),
    "{net.CIDR}.masked() net.CIDR": _mask_cidr,
    "{net.CIDR}.prefixLength() int": lambda value: value.wrapped.network.prefixlen,
}


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
    """The path with escape sequences."""
    query: str
    fragment: str
    opaque: str = ""
    """The text after the scheme if it does not begin with a slash. Host and path are then empty."""

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
    """Parse the URL of a request. Raises ValueError unless it is an absolute URL or path.

    A request has no fragment, so ``#`` is part of the path.
    """
    return _parse_url_without_fragment(text, "", in_request=True)


def parse_url(text: str) -> URL:
    """Parse a URL that may have a fragment. Raises ValueError if it is invalid."""
    parse_request_url(text)  # upstream also rejects URLs that are invalid in a request
    before, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        raise ValueError("invalid URL escape")
    return _parse_url_without_fragment(before, fragment, in_request=False)


def _parse_url_without_fragment(text: str, fragment: str, *, in_request: bool) -> URL:
    """Parse the text of a URL without its fragment. Raises ValueError with Go's message if it is invalid.

    ``fragment`` is stored in the result. ``in_request`` parses the URL as in an HTTP request, where a path may start
    with ``//`` without naming a host.
    """
    if any(c < " " or c == "\x7f" for c in text):
        raise ValueError("invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text == "*":
        return URL("", "", host="", path=text, query="", fragment="")
    scheme, remainder = _split_scheme(text)
    remainder, _, query = remainder.partition("?")
    if not remainder.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return URL(scheme, "", host="", path="", query=query, fragment=fragment, opaque=remainder)
    # As in Go, all slashes belong to the path if there is no scheme and either a request or three leading slashes.
    may_name_host = bool(scheme) or not (in_request or remainder.startswith("///"))
    if not (may_name_host and remainder.startswith("//")):
        return URL(scheme, "", host="", path=_escape_path(remainder), query=query, fragment=fragment)
    authority, slash, remainder = remainder[2:].partition("/")
    user, host = _split_authority(authority)
    return URL(scheme, user, host=host, path=_escape_path(slash + remainder), query=query, fragment=fragment)


def _split_scheme(text: str) -> tuple[str, str]:
    """Split a URL into its scheme in lower case and the remaining text. The scheme is "" if there is none.

    Raises ValueError for a colon without a scheme.
    """
    match = _SCHEME.match(text)
    if match is None and text.startswith(":"):
        raise ValueError("missing protocol scheme")
    if match is None:
        return "", text
    return match[1].lower(), text[match.end() :]


def _split_authority(text: str) -> tuple[str, str]:
    """Split user information from the host. Raises ValueError if one of the two is invalid."""
    user, separator, host = text.rpartition("@")
    if separator and not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    if _BAD_ESCAPE.search(user) or _BAD_ESCAPE.search(host):
        raise ValueError("invalid URL escape")
    return user, _parse_host(host)


def _parse_host(text: str) -> str:
    """Validate a host with its port and return the unescaped text. Raises ValueError if it is invalid."""
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
    """Escape the path of a URL as Go does. Raises ValueError for an invalid escape."""
    if _BAD_ESCAPE.search(text):
        raise ValueError("invalid URL escape")
    return text if _IN_PATH.fullmatch(text) else quote(unquote(text), safe=_SAFE_IN_PATH)


def parse_cel_url(text: str) -> Opaque:
    """Parse a URL into a value for expressions. Raises CelError if it is invalid."""
    try:
        return Opaque("kubernetes.URL", parse_url(text))
    except ValueError as error:
        fault = f'parse "{text}": {error}'
        raise CelError(f"URL parse error during conversion from string: {fault}") from None


def parse_query(value: Opaque) -> Map:
    """Parse the query of a URL into a map from each name to the list of its values. Invalid parts are left out."""
    values: dict[str, list[str]] = {}
    for piece in value.wrapped.query.split("&"):
        if not piece or ";" in piece or _BAD_ESCAPE.search(piece):
            continue
        name, _, text = piece.partition("=")
        values.setdefault(unquote_plus(name), []).append(unquote_plus(text))
    return Map(values.items())


_URL_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "url(string) kubernetes.URL": parse_cel_url,
    "isURL(string) bool": build_validity_predicate(parse_request_url),
    "{kubernetes.URL}.getScheme() string": lambda value: value.wrapped.scheme,
    "{kubernetes.URL}.getHost() string": lambda value: value.wrapped.host,
    "{kubernetes.URL}.getHostname() string": lambda value: value.wrapped.hostname(),
    "{kubernetes.URL}.getPort() string": lambda value: value.wrapped.port(),
    "{kubernetes.URL}.getEscapedPath() string": lambda value: value.wrapped.path,
    "{kubernetes.URL}.getQuery() map(string, list(string))": parse_query,
}


FUNCTIONS: Mapping[str, Callable[..., Value]] = {**_ADDRESS_FUNCTIONS, **_URL_FUNCTIONS}
