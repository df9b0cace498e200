"""IP addresses and CIDRs in CEL selectors.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/{ip,cidr}.go (v1.36).
"""

from __future__ import annotations

import ipaddress

from kschedctl.scheduler.dynamic_resources.cel_values import Value, opaque

_IP, _CIDR = b"ip:", b"cidr:"


def ip(value: Value) -> bytes:
    """The address that a text stands for, or that of a CIDR. Raises ValueError, as the others do."""
    if isinstance(value, bytes | bytearray):  # CIDR.ip()
        return _IP + opaque(value, _CIDR).partition("/")[0].encode()
    found = ipaddress.ip_address(value)
    if isinstance(found, ipaddress.IPv6Address) and (found.scope_id or found.ipv4_mapped):
        raise ValueError(f'IP Address "{value}" with zone or IPv4-mapped form is not allowed')
    return _IP + str(found).encode()


def cidr(text: str) -> bytes:
    """The CIDR that a text stands for; bits of the host may be set."""
    return _CIDR + ipaddress.ip_interface(text).with_prefixlen.encode()


def address(value: Value) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address, or the text of one, to ask things of."""
    return ipaddress.ip_address(value if isinstance(value, str) else opaque(value, _IP))


def interface(value: Value) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """A CIDR, or the text of one, to ask things of."""
    return ipaddress.ip_interface(value if isinstance(value, str) else opaque(value, _CIDR))


def contains_cidr(outer: Value, inner: Value) -> bool:
    """Whether all addresses of the one are in the other."""
    a, b = interface(outer).network, interface(inner).network
    return a.version == b.version and b.network_address in a and b.prefixlen >= a.prefixlen


def masked(value: Value) -> bytes:
    """The CIDR without the bits of its host."""
    return _CIDR + str(interface(value).network).encode()


def is_global_unicast(value: Value) -> bool:
    """As Go's netip says: also private addresses."""
    found = address(value)
    special = found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local
    return not special and str(found) != "255.255.255.255"


def is_link_local_multicast(value: Value) -> bool:
    """224.0.0.0/24 or ff02::/16."""
    found = address(value)
    return any(found in network for network in _LINK_LOCAL_MULTICAST if network.version == found.version)


_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def is_canonical(text: str) -> bool:
    """Whether a text is the normal form of its address."""
    return opaque(ip(text), _IP) == text
