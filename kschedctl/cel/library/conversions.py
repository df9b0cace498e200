"""Conversions between types: ``int("5")``, ``string(1.5)``, ``type(x)``.

Upstream: github.com/google/cel-go/common/types/{bool,bytes,double,duration,int,string,timestamp,uint}.go (v0.26), with
strconv and fmt of Go's standard library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from kschedctl.cel.errors import CelError
from kschedctl.cel.library import times
from kschedctl.cel.library.operators import build_timestamp
from kschedctl.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Opaque,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    build_uint,
    ensure_int,
    get_type_name,
)

_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,400})?", re.ASCII)
_HEX = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+(\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,5}", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(inf(inity)?)|nan", re.IGNORECASE | re.ASCII)
_TRUE = frozenset(["1", "t", "T", "true", "TRUE", "True"])
_FALSE = frozenset(["0", "f", "F", "false", "FALSE", "False"])


def format_go_float(value: float) -> str:
    """Format a double like Go's ``%g``.

    >>> format_go_float(123456789.0), format_go_float(0.1), format_go_float(1e5), format_go_float(-1e-7)
    ('1.23456789e+08', '0.1', '100000', '-1e-07')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, power = _split_into_digits_and_power(value)
    if digits == "0":
        return f"{sign}0"
    if -4 <= power < 6:  # as in Go, other powers are written as an exponent
        return sign + _format_positional(digits, power)
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{sign}{mantissa}e{power:+03d}"


def format_plain_float(value: float) -> str:
    """Format a double without an exponent, with no more digits than needed.

    >>> format_plain_float(3600.0), format_plain_float(1e-7), format_plain_float(-1.5e21)
    ('3600', '0.0000001', '-1500000000000000000000')
    """
    sign, digits, power = _split_into_digits_and_power(value)
    return sign + _format_positional(digits, power)


def format_seconds(duration: Duration) -> str:
    """Format a duration in seconds, without an exponent."""
    whole, nanos = divmod(abs(duration.nanos), 10**9)
    seconds = whole + nanos / 1e9  # rounded as by Go's Duration.Seconds
    return format_plain_float(-seconds if duration.nanos < 0 else seconds)


def _split_into_digits_and_power(value: float) -> tuple[str, str, int]:
    """Split a value into its sign, its shortest exact digits, and the power of ten of the first digit."""
    number = Decimal(repr(value)).normalize()
    sign, digits, exponent = number.as_tuple()
    sign_text = "-" if sign else ""
    if not any(digits):
        return sign_text, "0", 0
    return sign_text, "".join(map(str, digits)), int(exponent) + len(digits) - 1


def _format_positional(digits: str, power: int) -> str:
    """Format digits with a decimal point and without an exponent. ``power`` is the power of ten of the first digit."""
    if power < 0:
        return f"0.{'0' * (-power - 1)}{digits}"
    padded = digits.ljust(power + 1, "0")
    whole, fraction = padded[: power + 1], padded[power + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def _build_conversion_error(source: str, target: str) -> CelError:
    """Build the error for a value of the type ``source`` that cannot be converted to the type ``target``."""
    return CelError(f"type conversion error from '{source}' to '{target}'")


def _parse_integer(text: str, low: int, high: int, target: str) -> int:
    """Parse a decimal integer from `low` to `high`. ``target`` is the name of the type, int or uint.

    Raises CelError if the text is not a decimal integer, is out of range, or is signed while `target` is uint.
    """
    if _INTEGER.fullmatch(text) and not (target == "uint" and text[0] in "+-"):
        value = int(text)
        if low <= value <= high:
            return value
    raise _build_conversion_error("string", target)


def to_int(value: Value) -> int:
    """Convert a value as ``int(value)`` does. Durations become nanoseconds, and timestamps become seconds.

    Raises CelError if a text is not an integer, or if a number exceeds 64 bits.
    """
    match value:
        case str():
            return _parse_integer(value, low=INT_MIN, high=INT_MAX, target="int")
        case float():
            if not -(2.0**63) < value < 2.0**63:
                raise CelError("integer overflow")
            return int(value)
        case Duration():
            return value.nanos
        case Timestamp():
            return value.nanos // 10**9
    return ensure_int(int(value))


def to_uint(value: Value) -> Uint:
    """Convert a value as ``uint(value)`` does.

    Raises CelError if a text is not an integer, or if a number is negative or exceeds 64 bits.
    """
    match value:
        case str():
            return Uint(_parse_integer(value, low=0, high=UINT_MAX, target="uint"))
        case float():
            if not 0 <= value < 2.0**64:
                raise CelError("unsigned integer overflow")
            return Uint(int(value))
    return build_uint(int(value))


def to_double(value: Value) -> float:
    """Convert a value as ``double(value)`` does. Raises CelError if a text is not a number or out of range."""
    if not isinstance(value, str):
        return float(value)
    if _SPECIAL.fullmatch(value):
        return float(value)
    number = math.inf  # stays infinite if the text is malformed or out of range
    try:
        if _FLOAT.fullmatch(value):
            number = float(value)
        elif _HEX.fullmatch(value):
            number = float.fromhex(value)
    except OverflowError:
        pass
    if math.isinf(number):
        raise _build_conversion_error("string", "double")
    return number


def to_bool(value: Value) -> bool:
    """Convert a value as ``bool(value)`` does. Raises CelError if a text is not a boolean."""
    if isinstance(value, str):
        if value not in _TRUE | _FALSE:
            raise _build_conversion_error("string", "bool")
        return value in _TRUE
    return bool(value)


def to_bytes(value: Value) -> bytes:
    """Convert a value like ``bytes(value)``. A text becomes UTF-8."""
    return value.encode() if isinstance(value, str) else value


def to_string(value: Value) -> str:
    """Convert a value like ``string(value)``. Raises CelError for bytes that are not UTF-8."""
    return _STRINGS.get(type(value), str)(value)


def _decode_utf8(value: bytes) -> str:
    """Decode UTF-8. Raises CelError for invalid bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


_STRINGS: Mapping[type, Callable[[Value], str]] = {
    bool: lambda value: str(value).lower(),
    bytes: _decode_utf8,
    float: format_go_float,
    Duration: lambda value: f"{format_seconds(value)}s",
    Timestamp: times.format_timestamp,
    TypeValue: lambda value: value.name,
    Opaque: lambda value: str(value.wrapped),
}


def to_duration(value: Value) -> Duration:
    """Convert a value as ``duration(value)`` does. Raises CelError for invalid texts and for integers."""
    if isinstance(value, str):
        return times.parse_duration(value)
    if isinstance(value, Duration):
        return value
    raise CelError("type conversion error from 'int' to 'google.protobuf.Duration'")


def to_timestamp(value: Value) -> Timestamp:
    """Convert a value like ``timestamp(value)``. Raises CelError for an invalid text or year."""
    if isinstance(value, Timestamp):
        return value
    return times.parse_timestamp(value) if isinstance(value, str) else build_timestamp(value * 10**9)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **{f"bool({t}) bool": to_bool for t in ("bool", "string")},
    **{f"bytes({t}) bytes": to_bytes for t in ("bytes", "string")},
    **{f"double({t}) double": to_double for t in ("double", "int", "string", "uint")},
    **{f"duration({t}) duration": to_duration for t in ("duration", "int", "string")},
    **{f"int({t}) int": to_int for t in ("int", "double", "duration", "string", "timestamp", "uint")},
    **{
        f"string({t}) string": to_string
        for t in ("string", "bool", "bytes", "double", "duration", "int", "timestamp", "uint", "net.IP", "net.CIDR")
    },
    **{f"timestamp({t}) timestamp": to_timestamp for t in ("timestamp", "int", "string")},
    **{f"uint({t}) uint": to_uint for t in ("uint", "double", "int", "string")},
    "dyn(A) dyn": lambda value: value,
    "type(A) type(A)": lambda value: TypeValue(get_type_name(value)),
}
CONVERSIONS = frozenset(["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"])
"""Functions that are evaluated beforehand for constants, so that an error makes the whole expression invalid."""
