"""The functions that Kubernetes adds to CEL, as far as device selectors can use them: signatures and implementations.

Upstream: staging/src/k8s.io/apiserver/pkg/cel (environment/base.go, library) and cel-go's ext/strings.go (v1.36).
Not here: url, format.named, image and authorizer, of which no device attribute makes use.

Quantities, versions and addresses are opaque to CEL. While an expression runs they are bytes in a normal form, so that
equal things are equal bytes; the type checker knows them by their own types.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from kschedctl.api import quantity as quantities
from kschedctl.api.quantity import INT64_MAX, INT64_MIN, Format, Quantity
from kschedctl.errors import InputError
from kschedctl.scheduler.dynamic_resources import semver

NO_SUCH_OVERLOAD = "no such overload"
COST_LIMIT = "operation cancelled: actual cost limit exceeded"
MAX_TEXT = 1 << 20
"""Characters that one function may return: what keeps ``replace`` in a chain from filling the memory."""
MAX_INCLUDES = 48
"""Upstream's limit of the values of one attribute (resource/v1 ResourceSliceMaxAttributeValuesPerDevice)."""

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

Value = Any
_IP, _CIDR, _QUANTITY, _SEMVER = b"ip:", b"cidr:", b"quantity:", b"semver:"


def load_library() -> Any:
    """The CEL library. Raises InputError where the platform has none."""
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]  # noqa: PLC0415 - takes a moment
    except ImportError as error:
        what = "device selectors are CEL expressions, and the package cel-expr-python that reads them cannot be loaded"
        raise InputError(what, hint=str(error)) from None
    return cel


def quantity(text: str) -> bytes:
    """A quantity as CEL holds it while running. Raises ValueError."""
    return _of_quantity(quantities.parse(text))


def version(text: str, normalize: bool = False) -> bytes:
    """A version as CEL holds it while running. Raises ValueError."""
    return _SEMVER + str(semver.parse(text, normalize)).encode()


def _of_quantity(value: Quantity) -> bytes:
    return _QUANTITY + str(Quantity(value.mantissa, value.scale, Format.DECIMAL_EXPONENT)).encode()


def _opaque(value: Value, prefix: bytes) -> str:
    if not isinstance(value, bytes | bytearray) or not value.startswith(prefix):
        raise ValueError(NO_SUCH_OVERLOAD)
    return bytes(value).removeprefix(prefix).decode()


def _to_quantity(value: Value) -> Quantity:
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity(value, 0, Format.DECIMAL_EXPONENT)
    return quantities.parse(_opaque(value, _QUANTITY))


def _to_version(value: Value) -> semver.Version:
    return semver.parse(_opaque(value, _SEMVER))


def _compare(left: Value, right: Value) -> int:
    """Two quantities, or two versions."""
    if isinstance(left, bytes | bytearray) and left.startswith(_SEMVER):
        return _to_version(left).compare(_to_version(right))
    return quantities.parse(_opaque(left, _QUANTITY)).cmp(quantities.parse(_opaque(right, _QUANTITY)))


def _integer(value: Value) -> int | None:
    found = quantities.parse(_opaque(value, _QUANTITY))
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


# -- addresses ----------------------------------------------------------------------------------------------------


def _ip(value: Value) -> bytes:
    if isinstance(value, bytes | bytearray):  # CIDR.ip()
        return _IP + _opaque(value, _CIDR).partition("/")[0].encode()
    address = ipaddress.ip_address(value)
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped):
        raise ValueError(f'IP Address "{value}" with zone or IPv4-mapped form is not allowed')
    return _IP + str(address).encode()


def _cidr(text: str) -> bytes:
    return _CIDR + ipaddress.ip_interface(text).with_prefixlen.encode()


def _address(value: Value) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(value if isinstance(value, str) else _opaque(value, _IP))


def _interface(value: Value) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    return ipaddress.ip_interface(value if isinstance(value, str) else _opaque(value, _CIDR))


def _contains_cidr(outer: Value, inner: Value) -> bool:
    a, b = _interface(outer).network, _interface(inner).network
    return a.version == b.version and b.network_address in a and b.prefixlen >= a.prefixlen


def _masked(value: Value) -> bytes:
    return _CIDR + str(_interface(value).network).encode()


def _is_global_unicast(value: Value) -> bool:
    address = _address(value)
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and str(address) != "255.255.255.255"


# -- regular expressions, by RE2 ----------------------------------------------------------------------------------


@cache
def _extract(function: str) -> Any:
    cel = load_library()
    config = cel.NewEnvConfigFromYaml("extensions:\n  - name: regex\n  - name: optional\n")
    env = cel.NewEnv(config=config, variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
    return env.compile(function)


def _ungrouped(pattern: str) -> str:
    """The pattern with its capturing groups made plain: the whole match is asked for.

    >>> _ungrouped(r"(a)[(](?:b)\\(")
    '(?:a)[(](?:b)\\\\('
    """
    return re.sub(r"\\.|\[\^?\]?[^\]]*\]|\((?!\?)", lambda m: "(?:" if m[0] == "(" else m[0], pattern)


def _run(function: str, text: str, pattern: str) -> Any:
    found = _extract(function).eval(data={"text": text, "pattern": _ungrouped(pattern)})
    if str(found.type()) == "ERROR":
        raise ValueError(str(found.value()).partition(": ")[2])
    return found.plain_value()


def _find(text: str, pattern: str) -> str:
    return str(_run('regex.extract(text, pattern).orValue("")', text, pattern))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = _run("regex.extractAll(text, pattern)", text, pattern)
    return found if limit < 0 else found[:limit]


# -- lists and texts ----------------------------------------------------------------------------------------------


def _position(where: Value, what: Value, start: int | None = None) -> int:
    if isinstance(where, list):
        return where.index(what) if what in where else -1
    if start is not None and not 0 <= start <= len(where):
        raise ValueError(f"index out of range: {start}")
    return int(where.find(what, start or 0))


def _last_position(where: Value, what: Value, start: int | None = None) -> int:
    if isinstance(where, list):
        return len(where) - 1 - where[::-1].index(what) if what in where else -1
    if start is None:
        return int(where.rfind(what))
    if not 0 <= start <= len(where):
        raise ValueError(f"index out of range: {start}")
    return int(where.rfind(what, 0, start + len(what)))


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise ValueError(f"index out of range: {at}")
    return text[at : at + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"index out of range: {start if not 0 <= start <= len(text) else end}")
    return text[start:end]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    times = len(text) + 1 if not old else text.count(old)
    if len(text) + times * len(new) > MAX_TEXT:
        raise ValueError(COST_LIMIT)
    return text.replace(old, new, count)


def _join(parts: Sequence[str], separator: str = "") -> str:
    if sum(map(len, parts)) + len(parts) * len(separator) > MAX_TEXT:
        raise ValueError(COST_LIMIT)
    return separator.join(parts)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1) if limit > 0 else text.split(separator)
    characters = list(text)
    return (
        characters if limit < 0 else characters[: limit - 1] + ["".join(characters[limit - 1 :])] * (len(text) >= limit)
    )


def _ascii(text: str, change: Callable[[str], str]) -> str:
    return "".join(change(c) if c.isascii() else c for c in text)


def _format(template: str, values: Sequence[Value]) -> str:
    """``%s %d %f %e %x %X %o %b %%``, with a precision where the verb takes one."""
    rest = list(values)

    def fill(match: re.Match[str]) -> str:
        precision, verb = match[1] or "", match[2]
        if verb == "%":
            return "%"
        if not rest:
            raise ValueError(f"index {len(values)} out of range")
        value = rest.pop(0)
        if verb == "s":
            return _text(value)
        if verb in "fe":
            return f"{float(value):{precision or '.6'}{verb}}"
        if verb in "xX" and isinstance(value, str | bytes):
            return (value.encode() if isinstance(value, str) else value).hex().translate(_UPPER if verb == "X" else {})
        return format(int(value), verb)

    filled = re.sub(r"%(\.\d{1,3})?([sdfexXob%])", fill, template)
    if len(filled) > MAX_TEXT:
        raise ValueError(COST_LIMIT)
    return filled


_UPPER = str.maketrans("abcdef", "ABCDEF")


def _text(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "null"
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case dict():
            return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in sorted(value.items())) + "}"
        case float() if value == int(value):
            return str(int(value))
    return str(value)


def _quote(text: str) -> str:
    escapes = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
    table = str.maketrans(escapes | {"\\": r"\\", '"': r"\""})
    return f'"{text.translate(table)}"'


def _includes(target: Value, value: Value) -> bool:
    if not isinstance(target, list):
        return bool(target == value)
    if value in target[:MAX_INCLUDES]:
        return True
    if len(target) > MAX_INCLUDES:
        raise ValueError(f"'includes' function cannot be applied to lists longer than {MAX_INCLUDES} values")
    return False


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
    "find": _find,
    "findAll": _find_all,
    "isSorted": lambda values: all(a <= b for a, b in pairwise(values)),
    "sum": sum,
    "min": min,
    "max": max,
    "indexOf": _position,
    "lastIndexOf": _last_position,
    "ip": _ip,
    "isIP": _valid(_ip),
    "ip.isCanonical": lambda text: _opaque(_ip(text), _IP) == text,
    "family": lambda a: _address(a).version,
    "isUnspecified": lambda a: _address(a).is_unspecified,
    "isLoopback": lambda a: _address(a).is_loopback,
    "isLinkLocalMulticast": lambda a: str(_address(a)).startswith("224.0.0.") or str(_address(a)).startswith("ff02:"),
    "isLinkLocalUnicast": lambda a: _address(a).is_link_local,
    "isGlobalUnicast": _is_global_unicast,
    "cidr": _cidr,
    "isCIDR": _valid(_cidr),
    "containsIP": lambda c, a: _address(a) in _interface(c).network,
    "containsCIDR": _contains_cidr,
    "masked": _masked,
    "prefixLength": lambda c: _interface(c).network.prefixlen,
    "includes": _includes,
    "charAt": _char_at,
    "join": _join,
    "lowerAscii": lambda text: _ascii(text, str.lower),
    "upperAscii": lambda text: _ascii(text, str.upper),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "trim": str.strip,
    "format": _format,
    "strings.quote": _quote,
}
