"""The functions that Kubernetes adds to CEL, as far as device selectors can use them: signatures and implementations.

Upstream: staging/src/k8s.io/apiserver/pkg/cel (environment/base.go, library) and cel-go's ext/strings.go (v1.36).
Not here: url, format.named, image and authorizer, of which no device attribute makes use.

Quantities, versions and addresses are opaque to CEL. While an expression runs they are bytes in a normal form, so that
equal things are equal bytes; the type checker knows them by their own types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from kschedctl.api import quantity as quantities
from kschedctl.api.quantity import INT64_MAX, INT64_MIN, Format, Quantity
from kschedctl.scheduler.dynamic_resources import cel_addresses as addresses
from kschedctl.scheduler.dynamic_resources import cel_texts as texts
from kschedctl.scheduler.dynamic_resources import semver
from kschedctl.scheduler.dynamic_resources.cel_values import Value, opaque

SIGNATURES = """
quantity(string) Quantity
isQuantity(string) bool
sign(Quantity) int
Quantity.isGreaterThan(Quantity) bool
Quantity.isLessThan(Quantity) bool
Quantity.compareTo(Quantity) int
Quantity.asApproximateFloat() double
Quantity.asInteger() int
Quantity.isInteger() bool
Quantity.add(Quantity) Quantity
Quantity.add(int) Quantity
Quantity.sub(Quantity) Quantity
Quantity.sub(int) Quantity
semver(string) Semver
semver(string,bool) Semver
isSemver(string) bool
isSemver(string,bool) bool
Semver.isGreaterThan(Semver) bool
Semver.isLessThan(Semver) bool
Semver.compareTo(Semver) int
Semver.major() int
Semver.minor() int
Semver.patch() int
string.find(string) string
string.findAll(string) list<string>
string.findAll(string,int) list<string>
list<dyn>.isSorted() bool
list<dyn>.sum() dyn
list<dyn>.min() dyn
list<dyn>.max() dyn
list<dyn>.indexOf(dyn) int
list<dyn>.lastIndexOf(dyn) int
ip(string) IP
isIP(string) bool
ip.isCanonical(string) bool
IP.family() int
IP.isUnspecified() bool
IP.isLoopback() bool
IP.isLinkLocalMulticast() bool
IP.isLinkLocalUnicast() bool
IP.isGlobalUnicast() bool
cidr(string) CIDR
isCIDR(string) bool
CIDR.containsIP(IP) bool
CIDR.containsIP(string) bool
CIDR.containsCIDR(CIDR) bool
CIDR.containsCIDR(string) bool
CIDR.ip() IP
CIDR.masked() CIDR
CIDR.prefixLength() int
dyn.includes(dyn) bool
string.charAt(int) string
string.indexOf(string) int
string.indexOf(string,int) int
string.lastIndexOf(string) int
string.lastIndexOf(string,int) int
list<string>.join() string
list<string>.join(string) string
string.lowerAscii() string
string.upperAscii() string
string.replace(string,string) string
string.replace(string,string,int) string
string.split(string) list<string>
string.split(string,int) list<string>
string.substring(int) string
string.substring(int,int) string
string.trim() string
string.format(list<dyn>) string
strings.quote(string) string
"""
"""One overload a line; ``Type.name(…)`` is a member function where ``Type`` is one, else a qualified name."""

_QUANTITY, _SEMVER = b"quantity:", b"semver:"


def quantity(text: str) -> bytes:
    """A quantity as CEL holds it while running. Raises ValueError."""
    return _of_quantity(quantities.parse(text))


def version(text: str, normalize: bool = False) -> bytes:
    """A version as CEL holds it while running. Raises ValueError."""
    return _SEMVER + str(semver.parse(text, normalize)).encode()


def _of_quantity(value: Quantity) -> bytes:
    return _QUANTITY + str(Quantity(value.mantissa, value.scale, Format.DECIMAL_EXPONENT)).encode()


def _to_quantity(value: Value) -> Quantity:
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity(value, 0, Format.DECIMAL_EXPONENT)
    return quantities.parse(opaque(value, _QUANTITY))


def _to_version(value: Value) -> semver.Version:
    return semver.parse(opaque(value, _SEMVER))


def _compare(left: Value, right: Value) -> int:
    """Two quantities, or two versions."""
    if isinstance(left, bytes | bytearray) and left.startswith(_SEMVER):
        return _to_version(left).compare(_to_version(right))
    return quantities.parse(opaque(left, _QUANTITY)).cmp(quantities.parse(opaque(right, _QUANTITY)))


def _integer(value: Value) -> int | None:
    found = quantities.parse(opaque(value, _QUANTITY))
    number = found.round_up(0)
    return (
        int(number.value())
        if number == found and INT64_MIN <= number.mantissa * 10**number.scale <= INT64_MAX
        else None
    )


def _as_integer(value: Value) -> int:
    number = _integer(value)
    if number is None:
        raise ValueError("cannot convert value to integer")
    return number


def _valid(function: Callable[..., Value]) -> Callable[..., bool]:
    def check(*args: Value) -> bool:
        try:
            function(*args)
        except ValueError:
            return False
        return True

    return check


IMPLEMENTATIONS: Mapping[str, Callable[..., Value]] = {
    "quantity": quantity,
    "isQuantity": _valid(quantity),
    "sign": lambda q: (_to_quantity(q).mantissa > 0) - (_to_quantity(q).mantissa < 0),
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "compareTo": _compare,
    "asApproximateFloat": lambda q: float(_to_quantity(q).mantissa) * 10.0 ** _to_quantity(q).scale,
    "asInteger": _as_integer,
    "isInteger": lambda q: _integer(q) is not None,
    "add": lambda a, b: _of_quantity(_to_quantity(a).add(_to_quantity(b))),
    "sub": lambda a, b: _of_quantity(_to_quantity(a).sub(_to_quantity(b))),
    "semver": version,
    "isSemver": _valid(version),
    "major": lambda v: _to_version(v).major,
    "minor": lambda v: _to_version(v).minor,
    "patch": lambda v: _to_version(v).patch,
    "find": texts.find,
    "findAll": texts.find_all,
    "isSorted": lambda values: all(a <= b for a, b in pairwise(values)),
    "sum": sum,
    "min": min,
    "max": max,
    "indexOf": texts.position,
    "lastIndexOf": texts.last_position,
    "ip": addresses.ip,
    "isIP": _valid(addresses.ip),
    "ip.isCanonical": addresses.is_canonical,
    "family": lambda a: addresses.address(a).version,
    "isUnspecified": lambda a: addresses.address(a).is_unspecified,
    "isLoopback": lambda a: addresses.address(a).is_loopback,
    "isLinkLocalMulticast": addresses.is_link_local_multicast,
    "isLinkLocalUnicast": lambda a: addresses.address(a).is_link_local,
    "isGlobalUnicast": addresses.is_global_unicast,
    "cidr": addresses.cidr,
    "isCIDR": _valid(addresses.cidr),
    "containsIP": lambda c, a: addresses.address(a) in addresses.interface(c).network,
    "containsCIDR": addresses.contains_cidr,
    "masked": addresses.masked,
    "prefixLength": lambda c: addresses.interface(c).network.prefixlen,
    "includes": texts.includes,
    "charAt": texts.char_at,
    "join": texts.join,
    "lowerAscii": lambda text: texts.ascii(text, str.lower),
    "upperAscii": lambda text: texts.ascii(text, str.upper),
    "replace": texts.replace,
    "split": texts.split,
    "substring": texts.substring,
    "trim": str.strip,
    "format": texts.format,
    "strings.quote": texts.quote,
}
