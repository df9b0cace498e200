"""Arithmetic, comparison, membership and size. The implementations tell types apart themselves.

Upstream: github.com/google/cel-go/common/{stdlib/standard.go,types/overflow.go} (v0.26).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError
from kschedctl.cel.meter import spend
from kschedctl.cel.values import (
    INT_MAX,
    INT_MIN,
    Duration,
    Growing,
    Map,
    Timestamp,
    Uint,
    Value,
    compare,
    contains,
    integer,
    unsigned,
)

MIN_TIME, MAX_TIME = -62135596800 * 10**9, 253402300799 * 10**9 + 10**9 - 1
"""The years 1 to 9999, in nanoseconds since 1970."""


def duration(nanos: int) -> Duration:
    """A duration that has to fit. Raises CelError."""
    if not INT_MIN <= nanos <= INT_MAX:
        raise CelError("duration overflow")
    return Duration(nanos)


def timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """A moment that has to be in the years 1 to 9999. Raises CelError."""
    if not MIN_TIME <= nanos <= MAX_TIME:
        raise CelError("timestamp overflow")
    return Timestamp(nanos, offset)


def add(left: Value, right: Value) -> Value:
    """``left + right``. Raises CelError, as the others do."""
    if isinstance(left, list) and isinstance(right, list):
        return _joined(left, right)
    return _found(_SUMS, left, right)(left, right)


def subtract(left: Value, right: Value) -> Value:
    """``left - right``"""
    return _found(_DIFFERENCES, left, right)(left, right)


_Operation = Callable[[Value, Value], Value]


def _found(operations: Mapping[tuple[type, type], _Operation], left: Value, right: Value) -> _Operation:
    operation = operations.get((type(left), type(right)))
    if operation is None:
        raise CelError(NO_SUCH_OVERLOAD)
    return operation


def _joined(left: list[Value], right: list[Value]) -> list[Value]:
    if type(left) is Growing:
        left.extend(right)
        return left
    spend(len(left) + len(right))
    return [*left, *right]


_SUMS: Mapping[tuple[type, type], _Operation] = {
    (int, int): lambda a, b: integer(a + b),
    (Uint, Uint): lambda a, b: unsigned(int(a) + int(b)),
    (float, float): lambda a, b: a + b,
    (str, str): lambda a, b: a + b,
    (bytes, bytes): lambda a, b: a + b,
    (Duration, Duration): lambda a, b: duration(a.nanos + b.nanos),
    (Duration, Timestamp): lambda a, b: timestamp(a.nanos + b.nanos, b.offset),
    (Timestamp, Duration): lambda a, b: timestamp(a.nanos + b.nanos, a.offset),
}
_DIFFERENCES: Mapping[tuple[type, type], _Operation] = {
    (int, int): lambda a, b: integer(a - b),
    (Uint, Uint): lambda a, b: unsigned(int(a) - int(b)),
    (float, float): lambda a, b: a - b,
    (Duration, Duration): lambda a, b: duration(a.nanos - b.nanos),
    (Timestamp, Duration): lambda a, b: timestamp(a.nanos - b.nanos, a.offset),
    (Timestamp, Timestamp): lambda a, b: duration(a.nanos - b.nanos),
}


def multiply(left: Value, right: Value) -> Value:
    """``left * right``"""
    if type(left) is not type(right) or type(left) not in (int, Uint, float):
        raise CelError(NO_SUCH_OVERLOAD)
    if type(left) is float:
        return left * right
    return integer(left * right) if type(left) is int else unsigned(int(left) * int(right))


def divide(left: Value, right: Value) -> Value:
    """``left / right``, towards zero for integers."""
    if type(left) is not type(right) or type(left) not in (int, Uint, float):
        raise CelError(NO_SUCH_OVERLOAD)
    if type(left) is float:
        return _divided(left, right)
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right) * (-1 if (left < 0) != (right < 0) else 1)
    return Uint(quotient) if type(left) is Uint else integer(quotient)


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: Value, right: Value) -> Value:
    """``left % right``, with the sign of the left one."""
    if type(left) is not type(right) or type(left) not in (int, Uint):
        raise CelError(NO_SUCH_OVERLOAD)
    if right == 0:
        raise CelError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise CelError("integer overflow")
    rest = abs(left) % abs(right)
    return Uint(rest) if type(left) is Uint else (-rest if left < 0 else rest)


def negate(value: Value) -> Value:
    """``-value``"""
    if type(value) is int:
        return integer(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return duration(-value.nanos)
    raise CelError(NO_SUCH_OVERLOAD)


def negated(value: Value) -> bool:
    """``!value``"""
    if type(value) is not bool:
        raise CelError(NO_SUCH_OVERLOAD)
    return not value


def is_in(value: Value, container: Value) -> bool:
    """``value in container``"""
    if isinstance(container, list):
        return contains(container, value)
    if isinstance(container, Map):
        return bool(container.own(value) is not _NOWHERE)
    raise CelError(NO_SUCH_OVERLOAD)


_NOWHERE = Map().own("")


def size(value: Value) -> int:
    """``size(value)``"""
    if not isinstance(value, str | bytes | list | Map):
        raise CelError(NO_SUCH_OVERLOAD)
    return len(value)


def _comparisons() -> dict[str, Callable[..., Value]]:
    numbers = ("int", "uint", "double")
    pairs = [(a, b) for a in numbers for b in numbers]
    pairs += [(t, t) for t in ("bool", "string", "bytes", "timestamp", "duration")]
    tests: dict[str, Callable[[Value, Value], bool]] = {
        "<": lambda a, b: compare(a, b) < 0,
        "<=": lambda a, b: compare(a, b) <= 0,
        ">": lambda a, b: compare(a, b) > 0,
        ">=": lambda a, b: compare(a, b) >= 0,
    }
    return {f"_{sign}_({a}, {b}) bool": test for sign, test in tests.items() for a, b in pairs}


def _arithmetic() -> dict[str, Callable[..., Value]]:
    numbers = ("double", "int", "uint")
    both = {"+": ("bytes", "duration", "list(A)", "string", *numbers), "-": ("duration", *numbers)}
    both |= {"*": numbers, "/": numbers, "%": numbers[1:]}
    of = {"+": add, "-": subtract, "*": multiply, "/": divide, "%": modulo}
    table = {f"_{sign}_({t}, {t}) {t}": of[sign] for sign, types in both.items() for t in types}
    return table | {
        "_+_(duration, timestamp) timestamp": add,
        "_+_(timestamp, duration) timestamp": add,
        "_-_(timestamp, duration) timestamp": subtract,
        "_-_(timestamp, timestamp) duration": subtract,
    }


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **_comparisons(),
    **_arithmetic(),
    "-_(double) double": negate,
    "-_(int) int": negate,
    "!_(bool) bool": negated,
    "@in(A, list(A)) bool": is_in,
    "@in(A, map(A, B)) bool": is_in,
    **{f"size({t}) int": size for t in ("bytes", "list(A)", "map(A, B)", "string")},
    **{f"{{{t}}}.size() int": size for t in ("bytes", "list(A)", "map(A, B)", "string")},
}
