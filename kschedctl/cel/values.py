"""What expressions compute with, how values are equal and how they are ordered.

bool, int, float, str, bytes, list and None are Python's; the rest is here. The things of Kubernetes (quantities,
versions, addresses, URLs, formats) are ``Opaque``.

Upstream: github.com/google/cel-go/common/types (v0.26) and staging/src/k8s.io/apiserver/pkg/cel (v1.36).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError
from kschedctl.cel.meter import spend

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
Value: TypeAlias = Any
"""What an expression computes with: its type is known when it is evaluated, as in cel-go, and looked at by then."""
MISSING: Value = object()


class Uint(int):
    """An unsigned integer: the other kind of number."""

    __slots__ = ()


class Growing(list[Value]):
    """The list that a comprehension makes, to which its steps append in place."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment in nanoseconds since 1970, and the offset in seconds that it was written with."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what ``type(x)`` gives and ``int`` is."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    value: Value = MISSING

    def __bool__(self) -> bool:
        return self.value is not MISSING

    def get(self) -> Value:
        """The value. Raises CelError."""
        if self.value is MISSING:
            raise CelError("optional.none() dereference")
        return self.value


NONE = Optional()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A thing of one of Kubernetes' own types: ``held`` is our value of it.

    ``computed``: a quantity that arithmetic made, which upstream cannot compare on the right of ``==``.
    """

    type_name: str
    held: Value
    computed: bool = False


class Map:
    """A map; its keys are told apart by type, as ``1``, ``1u``, ``1.0`` and ``true`` are different keys."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[Value, Value]] = ()) -> None:
        self.entries: dict[tuple[type, Value], Value] = {}
        for key, value in entries:
            self.put(key, value)

    def put(self, key: Value, value: Value) -> None:
        """Raises CelError for a key that cannot be one."""
        try:
            self.entries[type(key), key] = value
        except TypeError:
            raise CelError("unsupported key type") from None

    def find(self, key: Value) -> Value:
        """The value of a key, or of a number of another type that equals it; MISSING for none."""
        return self.own(key)

    def own(self, key: Value) -> Value:
        """The value of a key, or of a number of another type that equals it, whatever the default; MISSING for none."""
        try:
            value = self.entries.get((type(key), key), MISSING)
        except TypeError:
            return MISSING
        if value is not MISSING:
            return value
        for kind in _OTHER_KEYS.get(type(key), ()):
            if math.isfinite(key) and int(key) == key:
                value = self.entries.get((kind, kind(key)), MISSING)
                if value is not MISSING:
                    return value
        return MISSING

    def __iter__(self) -> Iterator[Value]:
        return (key for _, key in self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class DefaultMap(Map):
    """A map whose lookups give an empty map for what it does not have (``in`` does not)."""

    __slots__ = ()

    def find(self, key: Value) -> Value:
        value = self.own(key)
        return EMPTY if value is MISSING else value


class GrowingMap(Map):
    """The map that a comprehension makes."""

    __slots__ = ()


EMPTY = Map()
_OTHER_KEYS: dict[type, tuple[type, ...]] = {int: (Uint,), Uint: (int,), float: (int, Uint)}
NUMBERS = frozenset([int, Uint, float])
_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    Growing: "list",
    Map: "map",
    DefaultMap: "map",
    GrowingMap: "map",
    type(None): "null_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
}


def type_name(value: Value) -> str:
    """The name of a value's type."""
    return value.type_name if isinstance(value, Opaque) else _NAMES[type(value)]


def equal(left: Value, right: Value) -> bool:
    """Whether two values are equal; numbers are across types. Raises CelError for a thing and something else."""
    if left is None or right is None:
        return left is right
    test = _EQUAL.get(type(left))
    if test is not None:
        return test(left, right)
    return type(left) is type(right) and bool(left == right)


def _same_number(left: Value, right: Value) -> bool:
    if type(right) not in NUMBERS:
        return False
    if float in (type(left), type(right)):  # as upstream: rounded to a double
        return float(left) == float(right)
    return bool(left == right)


def _same_list(left: Value, right: Value) -> bool:
    if not isinstance(right, list) or len(left) != len(right):
        return False
    spend(len(left))
    return all(map(_not_unequal, left, right))


def _same_optional(left: Optional, right: Value) -> bool:
    if type(right) is not Optional or bool(left) != bool(right):
        return False
    return not left or equal(left.value, right.value)


def _same_thing(left: Opaque, right: Value) -> bool:
    if type(right) is not Opaque or left.type_name != right.type_name or right.computed:
        raise CelError(NO_SUCH_OVERLOAD)
    return bool(left.held == right.held)


def _not_unequal(left: Value, right: Value) -> bool:
    """Inside lists and maps upstream takes what cannot be compared for equal."""
    try:
        return equal(left, right)
    except CelError:
        return True


def _same_map(left: Map, right: Value) -> bool:
    if not isinstance(right, Map) or len(left) != len(right):
        return False
    spend(len(left))
    for key in left:
        other = right.find(key)
        if other is MISSING or not _not_unequal(left.own(key), other):
            return False
    return True


_EQUAL: Mapping[type, Callable[[Value, Value], bool]] = {
    **dict.fromkeys(NUMBERS, _same_number),
    **dict.fromkeys([list, Growing], _same_list),
    **dict.fromkeys([Map, DefaultMap, GrowingMap], _same_map),
    Optional: _same_optional,
    Opaque: _same_thing,
}


def contains(values: list[Value], wanted: Value) -> bool:
    """Whether a list has a value; what cannot be compared is not it."""
    spend(len(values))
    for value in values:
        try:
            if equal(wanted, value):
                return True
        except CelError:
            continue
    return False


_ORDERED = frozenset([str, bytes, bool])


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1. Raises CelError for what has no order."""
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


def integer(value: int) -> int:
    """A result that has to fit. Raises CelError."""
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def unsigned(value: int) -> Uint:
    """An unsigned result that has to fit. Raises CelError."""
    if not 0 <= value <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def size(value: Value) -> int:
    """What a value counts as where cost depends on size."""
    if isinstance(value, str | bytes | list | Map):
        return len(value)
    if isinstance(value, Optional) and value:
        return size(value.value)
    if isinstance(value, Opaque) and value.type_name in ("net.IP", "net.CIDR"):
        bits: int = value.held.network.prefixlen if value.type_name == "net.CIDR" else value.held.max_prefixlen
        return -(-bits // 8)
    return 1
