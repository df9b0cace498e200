"""Arithmetic, comparison, membership and size. The implementations distinguish types themselves.

Upstream: github.com/google/cel-go/common/{stdlib/standard.go,types/overflow.go} (v0.26).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product

from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError
from kschedctl.cel.values import (
    INT_MAX,
    INT_MIN,
    MISSING,
    Duration,
    GrowingList,
    Map,
    Timestamp,
    Uint,
    Value,
    build_uint,
    compare_values,
    ensure_int,
    list_contains,
    spend_work,
)

MIN_TIME = -62135596800 * 10**9
"""The beginning of the year 1, in nanoseconds since 1970."""
MAX_TIME = 253402300799 * 10**9 + 10**9 - 1
"""The end of the year 9999, in nanoseconds since 1970."""


def build_duration(nanos: int) -> Duration:
    """Return the duration of ``nanos`` nanoseconds. Raises CelError if the number does not fit in 64 bits."""
    if not INT_MIN <= nanos <= INT_MAX:
        raise CelError("duration overflow")
    return Duration(nanos)


def build_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Return the timestamp that is ``nanos`` nanoseconds after 1970, with the offset of its time zone.

    Raises CelError if it is outside the years 1 to 9999.
    """
    if not MIN_TIME <= nanos <= MAX_TIME:
        raise CelError("timestamp overflow")
    return Timestamp(nanos, offset)


def add(left: Value, right: Value) -> Value:
    """Return ``left + right``. Raises CelError for unsupported operand types and on overflow."""
    if isinstance(left, list) and isinstance(right, list):
        return _concatenate_lists(left, right)
    return _find_operation(_SUMS, left, right)(left, right)


def subtract(left: Value, right: Value) -> Value:
    """Return ``left - right``. Raises CelError for unsupported operand types and on overflow."""
    return _find_operation(_DIFFERENCES, left, right)(left, right)


_Operation = Callable[[Value, Value], Value]


def _find_operation(operations: Mapping[tuple[type, type], _Operation], left: Value, right: Value) -> _Operation:
    """Find the operation for the types of the two operands. Raises CelError if there is none."""
    operation = operations.get((type(left), type(right)))
    if operation is None:
        raise CelError(NO_SUCH_OVERLOAD)
    return operation


def _concatenate_lists(left: list[Value], right: list[Value]) -> list[Value]:
    """Concatenate two lists. If the left one is a loop's accumulator, it is extended in place."""
    if type(left) is GrowingList:
        left.extend(right)
        return left
    spend_work(len(left) + len(right))
    return [*left, *right]


_SUMS: Mapping[tuple[type, type], _Operation] = {
    (int, int): lambda a, b: ensure_int(a + b),
    (Uint, Uint): lambda a, b: build_uint(int(a) + int(b)),
    (float, float): lambda a, b: a + b,
    (str, str): lambda a, b: a + b,
    (bytes, bytes): lambda a, b: a + b,
    (Duration, Duration): lambda a, b: build_duration(a.nanos + b.nanos),
    (Duration, Timestamp): lambda a, b: build_timestamp(a.nanos + b.nanos, b.offset),
    (Timestamp, Duration): lambda a, b: build_timestamp(a.nanos + b.nanos, a.offset),
}
_DIFFERENCES: Mapping[tuple[type, type], _Operation] = {
    (int, int): lambda a, b: ensure_int(a - b),
    (Uint, Uint): lambda a, b: build_uint(int(a) - int(b)),
    (float, float): lambda a, b: a - b,
    (Duration, Duration): lambda a, b: build_duration(a.nanos - b.nanos),
    (Timestamp, Duration): lambda a, b: build_timestamp(a.nanos - b.nanos, a.offset),
    (Timestamp, Timestamp): lambda a, b: build_duration(a.nanos - b.nanos),
}


def multiply(left: Value, right: Value) -> Value:
    """Return ``left * right``. Raises CelError for unsupported operand types and on overflow."""
    if type(left) is not type(right) or type(left) not in (int, Uint, float):
        raise CelError(NO_SUCH_OVERLOAD)
    if type(left) is float:
        return left * right
    if type(left) is int:
        return ensure_int(left * right)
    return build_uint(int(left) * int(right))


def divide(left: Value, right: Value) -> Value:
    """Return ``left / right``, truncated towards zero for integers.

    Raises CelError for unsupported operand types, on overflow, and if an integer is divided by zero.
    """
    if type(left) is not type(right) or type(left) not in (int, Uint, float):
        raise CelError(NO_SUCH_OVERLOAD)
    if type(left) is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return Uint(quotient) if type(left) is Uint else ensure_int(quotient)


def _divide_doubles(left: float, right: float) -> float:
    """Divide doubles as Go does, where division by zero gives infinity or NaN."""
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: Value, right: Value) -> Value:
    """Return ``left % right`` with the sign of ``left``.

    Raises CelError for unsupported operand types, on overflow, and if ``right`` is zero.
    """
    if type(left) is not type(right) or type(left) not in (int, Uint):
        raise CelError(NO_SUCH_OVERLOAD)
    if right == 0:
        raise CelError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise CelError("integer overflow")
    remainder = abs(left) % abs(right)
    if type(left) is Uint:
        return Uint(remainder)
    return -remainder if left < 0 else remainder  # the sign is that of the dividend, unlike in Python


def negate(value: Value) -> Value:
    """Return ``-value``. Raises CelError for unsupported operand types and on overflow."""
    if type(value) is int:
        return ensure_int(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return build_duration(-value.nanos)
    raise CelError(NO_SUCH_OVERLOAD)


def logical_not(value: Value) -> bool:
    """Return ``!value``. Raises CelError if the value is not a boolean."""
    if type(value) is not bool:
        raise CelError(NO_SUCH_OVERLOAD)
    return not value


def is_in(value: Value, container: Value) -> bool:
    """Return ``value in container``. Raises CelError unless the container is a list or map."""
    if isinstance(container, list):
        return list_contains(container, value)
    if isinstance(container, Map):
        return container.find(value) is not MISSING
    raise CelError(NO_SUCH_OVERLOAD)


def get_size(value: Value) -> int:
    """Return ``size(value)``. Raises CelError for values without a size."""
    if not isinstance(value, str | bytes | list | Map):
        raise CelError(NO_SUCH_OVERLOAD)
    return len(value)


def _build_ordering_overloads() -> dict[str, Callable[..., Value]]:
    """Build the overloads of ``<``, ``<=``, ``>`` and ``>=`` by signature, such as ``_<_(int, uint) bool``."""
    tests: dict[str, Callable[[Value, Value], bool]] = {
        "<": lambda a, b: compare_values(a, b) < 0,
        "<=": lambda a, b: compare_values(a, b) <= 0,
        ">": lambda a, b: compare_values(a, b) > 0,
        ">=": lambda a, b: compare_values(a, b) >= 0,
    }
    # Numbers of all types can be compared with each other, and other values only with values of their type.
    type_pairs = [*product(("int", "uint", "double"), repeat=2)]
    type_pairs += [(name, name) for name in ("bool", "string", "bytes", "timestamp", "duration")]
    overloads = {}
    for sign, test in tests.items():
        for left, right in type_pairs:
            overloads[f"_{sign}_({left}, {right}) bool"] = test
    return overloads


def _build_arithmetic_overloads() -> dict[str, Callable[..., Value]]:
    """Build the overloads of ``+``, ``-``, ``*``, ``/`` and ``%`` by signature, such as ``_+_(int, int) int``."""
    numbers = ("double", "int", "uint")
    operators = {
        "+": (add, ("bytes", "duration", "list(A)", "string", *numbers)),
        "-": (subtract, ("duration", *numbers)),
        "*": (multiply, numbers),
        "/": (divide, numbers),
        "%": (modulo, ("int", "uint")),
    }
    overloads = {}
    for sign, (operation, types) in operators.items():
        for name in types:
            overloads[f"_{sign}_({name}, {name}) {name}"] = operation
    return overloads | {
        "_+_(duration, timestamp) timestamp": add,
        "_+_(timestamp, duration) timestamp": add,
        "_-_(timestamp, duration) timestamp": subtract,
        "_-_(timestamp, timestamp) duration": subtract,
    }


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **_build_ordering_overloads(),
    **_build_arithmetic_overloads(),
    "-_(double) double": negate,
    "-_(int) int": negate,
    "!_(bool) bool": logical_not,
    "@in(A, list(A)) bool": is_in,
    "@in(A, map(A, B)) bool": is_in,
    **{f"size({t}) int": get_size for t in ("bytes", "list(A)", "map(A, B)", "string")},
    **{f"{{{t}}}.size() int": get_size for t in ("bytes", "list(A)", "map(A, B)", "string")},
}
