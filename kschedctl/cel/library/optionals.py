"""Optional values, and the insertion into maps for comprehensions of two variables.

Upstream: github.com/google/cel-go/cel/library.go and ext/comprehensions.go (v0.26).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kschedctl.cel.errors import CelError
from kschedctl.cel.values import MISSING, NONE, Duration, GrowingMap, Map, Opaque, Optional, Timestamp, TypeValue, Value

_GO_ZERO_TIME = -62135596800 * 10**9
"""The zero of Go's time, which upstream uses instead of 1970."""


def optional_of_non_zero(value: Value) -> Optional:
    """Return an optional value, without a value if it is zero, empty, false or null."""
    if isinstance(value, Opaque | TypeValue):
        return Optional(value)
    if isinstance(value, Duration | Timestamp):
        zero = value.nanos == (0 if isinstance(value, Duration) else _GO_ZERO_TIME)
    elif isinstance(value, list | Map):
        zero = len(value) == 0
    else:
        zero = not value
    return NONE if zero else Optional(value)


def unwrap_present(values: list[Value]) -> list[Value]:
    """Return the values that are present. Raises CelError."""
    for value in values:
        if not isinstance(value, Optional):
            raise CelError(f"value {value} is not optional")
    return [value.value for value in values if value]


def insert_entries(target: Map, *added: Value) -> Map:
    """Return the map with a key and value, or the entries of a map, inserted. Raises CelError for an existing key."""
    pairs = [added] if len(added) > 1 else [(key, added[0].find_own(key)) for key in added[0]]
    grown = target if isinstance(target, GrowingMap) else Map((key, target.find_own(key)) for key in target)
    for key, value in pairs:
        if grown.find_own(key) is not MISSING:
            raise CelError(f"insert failed: key {key} already exists")
        grown.put(key, value)
    return grown


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "optional.of(V) optional(V)": Optional,
    "optional.ofNonZeroValue(V) optional(V)": optional_of_non_zero,
    "optional.none() optional(V)": lambda: NONE,
    "optional.unwrap(list(optional(V))) list(V)": unwrap_present,
    "{list(optional(V))}.unwrapOpt() list(V)": unwrap_present,
    "{optional(V)}.value() V": Optional.get,
    "{optional(V)}.hasValue() bool": bool,
    "{list(V)}.first() optional(V)": lambda values: Optional(values[0]) if values else NONE,
    "{list(V)}.last() optional(V)": lambda values: Optional(values[-1]) if values else NONE,
    "cel.@mapInsert(map(K, V), K, V) map(K, V)": insert_entries,
    "cel.@mapInsert(map(K, V), map(K, V)) map(K, V)": insert_entries,
}
