"""Values of expressions, their equality and their order, and a limit on the work that happens inside values.

bool, int, float, str, bytes, list and None are Python's. The types of Kubernetes (quantities, versions, addresses,
URLs, formats) are ``Opaque``.

Upstream: github.com/google/cel-go/common/types (v0.26) and staging/src/k8s.io/apiserver/pkg/cel (v1.36).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError, CostLimitError

MAX_WORK = 1_500_000
"""The maximum work per evaluation: items that are read or copied, and blocks of CHARACTERS_PER_UNIT."""
CHARACTERS_PER_UNIT = 32


class _Meter(threading.local):
    """The remaining work of the current thread's evaluation.

    Work inside values is not part of upstream's cost. For example, a list whose elements name another list twice, and
    so on, costs upstream next to nothing to build, compare or print, but never ends. Here such work is stopped like an
    expression that costs too much.
    """

    remaining = MAX_WORK


_METER = _Meter()


def reset_work() -> None:
    """Allow MAX_WORK units of work again, at the start of an evaluation."""
    _METER.remaining = MAX_WORK


def get_work() -> int:
    """Return the units of work since the last reset."""
    return MAX_WORK - _METER.remaining


def spend_work(count: int) -> None:
    """Count units of work. Raises CostLimitError if there are more than MAX_WORK since the last reset."""
    _METER.remaining -= count
    if _METER.remaining < 0:
        raise CostLimitError


INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
UINT_MAX = 2**64 - 1
Value: TypeAlias = Any
"""A value of an expression. As in cel-go, its type is checked during evaluation."""
MISSING: Value = object()


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


class GrowingList(list[Value]):
    """A list under construction by a comprehension, whose steps append to it in place."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment in nanoseconds since 1970, with its original UTC offset in seconds."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value, such as the result of ``type(x)``."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    value: Value = MISSING

    def __bool__(self) -> bool:
        return self.value is not MISSING

    def get(self) -> Value:
        """Return the value. Raises CelError if it is missing."""
        if self.value is MISSING:
            raise CelError("optional.none() dereference")
        return self.value


NONE = Optional()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value of one of Kubernetes' own types."""

    type_name: str
    wrapped: Value
    """The Python value."""
    computed: bool = False
    """True if the value is a quantity computed by arithmetic, which upstream cannot compare on the right of ``==``."""


class Map:
    """A map whose keys are distinguished by type: ``1``, ``1u``, ``1.0`` and ``true`` are different keys."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[Value, Value]] = ()) -> None:
        self.entries: dict[tuple[type, Value], Value] = {}
        for key, value in entries:
            self.put(key, value)

    def put(self, key: Value, value: Value) -> None:
        """Set the value of a key. Raises CelError for an unhashable key, such as a list."""
        try:
            # The type is part of the key because Python treats 1, 1.0 and True as equal
            self.entries[type(key), key] = value
        except TypeError:  # the key is unhashable
            raise CelError("unsupported key type") from None

    def look_up(self, key: Value) -> Value:
        """Return the value of ``map[key]`` in an expression, or MISSING if the map has no such key."""
        return self.find(key)

    def find(self, key: Value) -> Value:
        """Return the value stored under the key, or under a numerically equal key of another type, or MISSING."""
        try:
            value = self.entries.get((type(key), key), MISSING)
        except TypeError:
            return MISSING
        if value is not MISSING:
            return value
        for key_type in _OTHER_KEY_TYPES.get(type(key), ()):
            if math.isfinite(key) and int(key) == key:
                value = self.entries.get((key_type, key_type(key)), MISSING)
                if value is not MISSING:
                    return value
        return MISSING

    def __iter__(self) -> Iterator[Value]:
        return (key for _, key in self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class DefaultMap(Map):
    """A map whose lookups return an empty map for missing keys, except with ``in``."""

    __slots__ = ()

    def look_up(self, key: Value) -> Value:
        """Return the value of ``map[key]`` in an expression. It is an empty map if this map has no such key."""
        value = self.find(key)
        return EMPTY if value is MISSING else value


class GrowingMap(Map):
    """The map that a comprehension builds."""

    __slots__ = ()


EMPTY = Map()
_OTHER_KEY_TYPES: dict[type, tuple[type, ...]] = {int: (Uint,), Uint: (int,), float: (int, Uint)}
"""Type of a number -> the types of keys that it is looked up as if no key has its own type."""
NUMBERS = frozenset([int, Uint, float])
_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    GrowingList: "list",
    Map: "map",
    DefaultMap: "map",
    GrowingMap: "map",
    type(None): "null_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
}


def get_type_name(value: Value) -> str:
    """Return the name of a value's type."""
    return value.type_name if isinstance(value, Opaque) else _NAMES[type(value)]


def are_equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal. Numbers of different types may be equal.

    If `left` is an opaque value, raises CelError unless `right` is of the same type and was not computed by arithmetic.
    """
    if left is None or right is None:
        return left is right
    test = _EQUAL.get(type(left))
    if test is not None:
        return test(left, right)
    return type(left) is type(right) and bool(left == right)


def _equals_number(left: Value, right: Value) -> bool:
    """Return whether a number equals a value. As in upstream, doubles and integers are compared as doubles."""
    if type(right) not in NUMBERS:
        return False
    if float in (type(left), type(right)):  # as upstream: rounded to a double
        return float(left) == float(right)
    return bool(left == right)


def _equals_list(left: Value, right: Value) -> bool:
    """Return whether a list equals a value."""
    if not isinstance(right, list) or len(left) != len(right):
        return False
    spend_work(len(left))
    return all(map(_equals_leniently, left, right))


def _equals_optional(left: Optional, right: Value) -> bool:
    """Return whether an optional value equals a value."""
    if type(right) is not Optional or bool(left) != bool(right):
        return False
    return not left or are_equal(left.value, right.value)


def _equals_opaque(left: Opaque, right: Value) -> bool:
    """Return whether an opaque value equals a value.

    Raises CelError if `right` is of another type or, as in upstream, if it is a quantity that was computed by
    arithmetic.
    """
    if type(right) is not Opaque or left.type_name != right.type_name or right.computed:
        raise CelError(NO_SUCH_OVERLOAD)
    return bool(left.wrapped == right.wrapped)


def _equals_leniently(left: Value, right: Value) -> bool:
    """Return whether elements of lists or maps are equal. Upstream treats incomparable elements as equal."""
    try:
        return are_equal(left, right)
    except CelError:
        return True


def _equals_map(left: Map, right: Value) -> bool:
    """Return whether a map equals a value.

    The value of each key is compared with ``right[key]`` as expressions look it up, so that the key 1 matches 1.0.
    """
    if not isinstance(right, Map) or len(left) != len(right):
        return False
    spend_work(len(left))
    for key in left:
        other = right.look_up(key)
        if other is MISSING or not _equals_leniently(left.find(key), other):
            return False
    return True


_EQUAL: Mapping[type, Callable[[Value, Value], bool]] = {
    **dict.fromkeys(NUMBERS, _equals_number),
    **dict.fromkeys([list, GrowingList], _equals_list),
    **dict.fromkeys([Map, DefaultMap, GrowingMap], _equals_map),
    Optional: _equals_optional,
    Opaque: _equals_opaque,
}


def list_contains(values: list[Value], wanted: Value) -> bool:
    """Return whether a list contains a value. Incomparable elements are ignored."""
    spend_work(len(values))
    for value in values:
        try:
            if are_equal(wanted, value):
                return True
        except CelError:
            continue
    return False


_ORDERED = frozenset([str, bytes, bool])


def compare_values(left: Value, right: Value) -> int:
    """Compare two values, and return -1, 0 or 1. Raises CelError for values that have no order."""
    kind, other = type(left), type(right)
    if kind in NUMBERS and other in NUMBERS:
        if math.isnan(left) or math.isnan(right):
            raise CelError("NaN values cannot be ordered")
        if float in (kind, other):
            left, right = float(left), float(right)
    elif kind is other and kind in (Duration, Timestamp):
        left, right = left.nanos, right.nanos
    elif kind is not other or kind not in _ORDERED:
        raise CelError(NO_SUCH_OVERLOAD)
    return int(left > right) - int(left < right)


def ensure_int(value: int) -> int:
    """Return the value. Raises CelError if it does not fit in an int of 64 bits."""
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def build_uint(value: int) -> Uint:
    """Return the value as a uint of 64 bits. Raises CelError if it does not fit."""
    if not 0 <= value <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def get_cost_size(value: Value) -> int:
    """Return the size of a value for the computation of costs.

    Texts, bytes, lists and maps have their length as size. An address or network prefix has its number of bytes, and an
    optional with a value has the size of that value. All other values have the size 1.
    """
    if isinstance(value, str | bytes | list | Map):
        return len(value)
    if isinstance(value, Optional) and value:
        return get_cost_size(value.value)
    if isinstance(value, Opaque) and value.type_name in ("net.IP", "net.CIDR"):
        bits: int = value.wrapped.network.prefixlen if value.type_name == "net.CIDR" else value.wrapped.max_prefixlen
        return -(-bits // 8)  # rounded up
    return 1
