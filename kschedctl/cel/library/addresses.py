"""IP addresses and CIDRs.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/{ip,cidr}.go (v1.36), with netip of Go's standard library.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping

from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError, accepts_values_of
from kschedctl.cel.values import Opaque, Value

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_MULTICAST = ipaddress.ip_network("224.0.0.0/24")


def _parse_address(text: str) -> _Address:
    """Parse an IP address. Raises ValueError, also for zones and IPv4-mapped IPv6 addresses."""
    try:
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
    """Parse an IP address. Raises CelError."""
    try:
        return Opaque("net.IP", _parse_address(text))
    except ValueError as error:
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {error}') from None


def parse_cidr(text: str) -> Opaque:
    """Parse a CIDR, whose host bits may be set. Raises CelError."""
    first, slash, bits = text.rpartition("/")
    try:
        if not slash or not _BITS.fullmatch(bits):
            raise ValueError("no length of a prefix")
        _parse_address(first)
        return Opaque("net.CIDR", ipaddress.ip_interface(text))
    except ValueError as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from None


def _parse_argument(read: Callable[[str], Opaque], text: str) -> Opaque:
    """Parse a string argument. Upstream drops the details of errors."""
    try:
        return read(text)
    except CelError:
        raise CelError(NO_SUCH_OVERLOAD) from None


def _contains_ip(outer: Opaque, inner: Opaque) -> bool:
    return inner.held in outer.held.network


def _contains_network(outer: Opaque, inner: Opaque) -> bool:
    a, b = outer.held.network, inner.held.network
    return a.version == b.version and b.network_address in a and b.prefixlen >= a.prefixlen


def _is_link_local_multicast(value: Opaque) -> bool:
    """Return whether the address is in 224.0.0.0/24, or in ff?2::/16 with any flags."""
    held: _Address = value.held
    return held in _MULTICAST if held.version == 4 else int(held) >> 112 & 0xFF0F == 0xFF02


def _is_global_unicast(value: Opaque) -> bool:
    """Return whether Go's netip considers the address global unicast, which includes private addresses."""
    held = value.held
    special = held.is_unspecified or held.is_loopback or held.is_multicast or held.is_link_local
    return not special and str(held) != "255.255.255.255"


def _mask(value: Opaque) -> Opaque:
    held: _Interface = value.held
    return Opaque("net.CIDR", ipaddress.ip_interface(str(held.network)))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "ip(string) net.IP": parse_ip,
    "isIP(string) bool": accepts_values_of(parse_ip),
    "ip.isCanonical(string) bool": lambda text: str(parse_ip(text).held) == text,
    "{net.IP}.family() int": lambda value: value.held.version,
    "{net.IP}.isUnspecified() bool": lambda value: value.held.is_unspecified,
    "{net.IP}.isLoopback() bool": lambda value: value.held.is_loopback,
    "{net.IP}.isLinkLocalMulticast() bool": _is_link_local_multicast,
    "{net.IP}.isLinkLocalUnicast() bool": lambda value: value.held.is_link_local,
    "{net.IP}.isGlobalUnicast() bool": _is_global_unicast,
    "cidr(string) net.CIDR": parse_cidr,
    "isCIDR(string) bool": accepts_values_of(parse_cidr),
    "{net.CIDR}.containsIP(net.IP) bool": _contains_ip,
    "{net.CIDR}.containsIP(string) bool": lambda outer, text: _contains_ip(outer, _parse_argument(parse_ip, text)),
    "{net.CIDR}.containsCIDR(net.CIDR) bool": _contains_network,
    "{net.CIDR}.containsCIDR(string) bool": lambda outer, text: _contains_network(
        outer, _parse_argument(parse_cidr, text)
    ),
    "{net.CIDR}.ip() net.IP": lambda value: Opaque("net.IP", value.held.ip),
    "{net.CIDR}.masked() net.CIDR": _mask,
    "{net.CIDR}.prefixLength() int": lambda value: value.held.network.prefixlen,
}
