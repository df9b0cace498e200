"""Functions for lists and sets, for optional values, and for insertion into maps.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/lists.go (v1.36), github.com/google/cel-go/cel/library.go and
github.com/google/cel-go/ext/{lists,sets,comprehensions}.go (v0.26, version 3 of the library).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from itertools import pairwise

from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError
from kschedctl.cel.library.operators import add
from kschedctl.cel.values import (
    MISSING,
    NONE,
    Duration,
    GrowingMap,
    Map,
    Opaque,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    are_equal,
    compare_values,
    get_type_name,
    list_contains,
    spend_work,
)

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: Mapping[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_MAX_DEPTH = 1000
_MAX_ATTRIBUTE_VALUES = 48  # resource/v1 ResourceSliceMaxAttributeValuesPerDevice


def is_sorted(values: list[Value]) -> bool:
    """Return whether no value is larger than the next one."""
    return all(_compare_leniently(first, second) <= 0 for first, second in pairwise(values))


def _compare_leniently(left: Value, right: Value) -> int:
    """Compare two values. Upstream treats incomparable values as equal."""
    try:
        return compare_values(left, right)
    except CelError:
        return 0


def _build_sum_function(zero: Value) -> Callable[[list[Value]], Value]:
    """Build the function that adds up a list, starting from the zero of the elements' type."""

    def sum_values(values: list[Value]) -> Value:
        """Return the sum of the values. Raises CelError on overflow."""
        result = zero
        for value in values:
            result = add(result, value)
        return result

    return sum_values


def _build_extreme_finder(name: str, sign: int) -> Callable[[list[Value]], Value]:
    """Build the function that returns the least (``sign`` is 1) or greatest (-1) element of a list.

    ``name`` is the name of the function in its error.
    """

    def find_extreme(values: list[Value]) -> Value:
        """Return the smallest or the largest element, as `sign` says. Raises CelError for an empty list."""
        if not values:
            raise CelError(f"{name} called on empty list")
        extreme_value = values[0]
        for value in values[1:]:
            if _compare_leniently(extreme_value, value) == sign:
                extreme_value = value
        return extreme_value

    return find_extreme


def _are_equal_or_false(value: Value, wanted: Value) -> bool:
    """Return whether two values are equal. Incomparable values are not."""
    try:
        return are_equal(value, wanted)
    except CelError:
        return False


def find_index(values: list[Value], wanted: Value) -> int:
    """Return the index of the first occurrence of a value, or -1."""
    return next((i for i, value in enumerate(values) if _are_equal_or_false(value, wanted)), -1)


def find_last_index(values: list[Value], wanted: Value) -> int:
    """Return the index of the last occurrence of a value, or -1."""
    return next((i for i in range(len(values) - 1, -1, -1) if _are_equal_or_false(values[i], wanted)), -1)


def slice_list(values: list[Value], start: int, end: int) -> list[Value]:
    """Return the values from ``start`` to before ``end``. Raises CelError for an invalid range."""
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def flatten(values: list[Value], depth: int = 1) -> list[Value]:
    """Flatten lists nested up to a depth. Values that are not lists stay unchanged.

    Raises CelError if ``values`` is not a list, or if the depth is negative or not an integer.
    """
    if not isinstance(values, list) or type(depth) is not int:
        raise CelError(NO_SUCH_OVERLOAD)
    if depth < 0:
        raise CelError("level must be non-negative")
    for _ in range(min(depth, _MAX_DEPTH)):
        if not any(isinstance(value, list) for value in values):
            break
        spend_work(sum(len(value) if isinstance(value, list) else 1 for value in values))
        flattened = []
        for value in values:
            if isinstance(value, list):
                flattened += value
            else:
                flattened.append(value)
        values = flattened
    return values


def sort_by_keys(values: list[Value], keys: list[Value]) -> list[Value]:
    """Return the values in the order of their keys.

    Raises CelError if the keys have different types, or if there are more or fewer keys than values.
    """
    if len(values) != len(keys):
        what = "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
        raise CelError(f"{what} {len(values)} and {len(keys)} elements respectively")
    if len({get_type_name(key) for key in keys}) > 1:
        raise CelError("list elements must have the same type")
    order = sorted(range(len(keys)), key=lambda i: cmp_to_key(_compare_leniently)(keys[i]))
    return [values[i] for i in order]


def remove_duplicates(values: list[Value]) -> list[Value]:
    """Return the values without duplicates, in the order of their first occurrences."""
    distinct: list[Value] = []
    for value in values:
        if not any(_are_equal_or_false(value, other) for other in distinct):
            distinct.append(value)
    return distinct


def list_range(count: int) -> list[int]:
    """Return the numbers from 0 to before ``count``."""
    return list(range(count))


def contains_all(values: list[Value], wanted: list[Value]) -> bool:
    """Return whether the list contains every wanted value."""
    return all(list_contains(values, value) for value in wanted)


def includes(target: Value, wanted: Value) -> bool:
    """Return whether `target` equals the wanted value or is a list that contains it.

    Only the first entries of a list are searched, as many as a device attribute may have. Raises CelError if the value
    is not among them and the list is longer. Upstream: includesFunc in dynamic-resource-allocation/cel/compile.go
    (v1.36).
    """
    if not isinstance(target, list):
        return _are_equal_or_false(target, wanted)
    if find_index(target[:_MAX_ATTRIBUTE_VALUES], wanted) >= 0:
        return True
    if len(target) > _MAX_ATTRIBUTE_VALUES:
        raise CelError(f"'includes' function cannot be applied to lists longer than {_MAX_ATTRIBUTE_VALUES} values")
    return False


_LIST_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **{f"{{list({t})}}.isSorted() bool": is_sorted for t in _COMPARABLE},
    **{f"{{list({t})}}.sum() {t}": _build_sum_function(zero) for t, zero in _ZEROS.items()},
    **{f"{{list({t})}}.max() {t}": _build_extreme_finder("max", -1) for t in _COMPARABLE},
    **{f"{{list({t})}}.min() {t}": _build_extreme_finder("min", 1) for t in _COMPARABLE},
    "{list(A)}.indexOf(A) int": find_index,
    "{list(A)}.lastIndexOf(A) int": find_last_index,
    "{list(T)}.slice(int, int) list(T)": slice_list,
    "{list(list(T))}.flatten() list(T)": flatten,
    "{list(dyn)}.flatten(int) list(dyn)": flatten,
    **{f"{{list({t})}}.sort() list({t})": lambda values: sort_by_keys(values, values) for t in _COMPARABLE},
    **{f"{{list(T)}}.@sortByAssociatedKeys(list({t})) list(T)": sort_by_keys for t in _COMPARABLE},
    "lists.range(int) list(int)": list_range,
    "{list(T)}.reverse() list(T)": lambda values: values[::-1],
    "{list(T)}.distinct() list(T)": remove_duplicates,
    "{dyn}.includes(dyn) bool": includes,
    "sets.contains(list(T), list(T)) bool": contains_all,
    "sets.equivalent(list(T), list(T)) bool": lambda a, b: contains_all(a, b) and contains_all(b, a),
    "sets.intersects(list(T), list(T)) bool": lambda a, b: any(list_contains(b, value) for value in a),
}


_GO_ZERO_TIME = -62135596800 * 10**9
"""The zero of Go's time, which upstream uses instead of 1970."""


def build_optional_of_non_zero(value: Value) -> Optional:
    """Wrap a value in an optional. The optional is empty if the value is zero, empty, false or null."""
    if isinstance(value, Opaque | TypeValue):
        return Optional(value)
    if isinstance(value, Duration | Timestamp):
        zero = 0 if isinstance(value, Duration) else _GO_ZERO_TIME
        is_zero = value.nanos == zero
    elif isinstance(value, list | Map):
        is_zero = len(value) == 0
    else:
        is_zero = not value
    return NONE if is_zero else Optional(value)


def unwrap_present_values(values: list[Value]) -> list[Value]:
    """Return the contents of the optional values that are present. Raises CelError if a value is not optional."""
    for value in values:
        if not isinstance(value, Optional):
            raise CelError(f"value {value} is not optional")
    return [optional.value for optional in values if optional]  # an Optional is true if it has a value


def insert_entry(target: Map, key: Value, value: Value) -> Map:
    """Return the map with a key and value inserted. Raises CelError for an existing key.

    A map that a comprehension builds grows in place. Other maps are copied.
    """
    return _insert_pairs_into_map(target, [(key, value)])


def insert_entries(target: Map, added: Map) -> Map:
    """Return the map with the entries of another map inserted, like `insert_entry`."""
    return _insert_pairs_into_map(target, [(key, added.find(key)) for key in added])


def _insert_pairs_into_map(target: Map, pairs: list[tuple[Value, Value]]) -> Map:
    """Return the map with the pairs of keys and values inserted. Raises CelError if a key already exists.

    A loop's accumulator is extended in place, and any other map is copied.
    """
    extended = target if isinstance(target, GrowingMap) else Map((key, target.find(key)) for key in target)
    for key, value in pairs:
        if extended.find(key) is not MISSING:
            raise CelError(f"insert failed: key {key} already exists")
        extended.put(key, value)
    return extended


_OPTIONAL_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "optional.of(V) optional(V)": Optional,
    "optional.ofNonZeroValue(V) optional(V)": build_optional_of_non_zero,
    "optional.none() optional(V)": lambda: NONE,
    "optional.unwrap(list(optional(V))) list(V)": unwrap_present_values,
    "{list(optional(V))}.unwrapOpt() list(V)": unwrap_present_values,
    "{optional(V)}.value() V": Optional.get,
    "{optional(V)}.hasValue() bool": bool,
    "{list(V)}.first() optional(V)": lambda values: Optional(values[0]) if values else NONE,
    "{list(V)}.last() optional(V)": lambda values: Optional(values[-1]) if values else NONE,
    "cel.@mapInsert(map(K, V), K, V) map(K, V)": insert_entry,
    "cel.@mapInsert(map(K, V), map(K, V)) map(K, V)": insert_entries,
}


FUNCTIONS: Mapping[str, Callable[..., Value]] = {**_LIST_FUNCTIONS, **_OPTIONAL_FUNCTIONS}
