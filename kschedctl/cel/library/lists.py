"""Lists: of Kubernetes (sum, min, isSorted), of cel-go's extension (slice, sort, flatten) and sets.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/lists.go (v1.36) and github.com/google/cel-go/ext/{lists,sets}.go
(v0.26, version 3 of the library).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from itertools import pairwise

from kschedctl.cel.errors import NO_SUCH_OVERLOAD, CelError
from kschedctl.cel.library.operators import add
from kschedctl.cel.meter import spend
from kschedctl.cel.values import Duration, Uint, Value, compare, contains, equal, type_name

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: Mapping[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_DEEPEST = 1000
_MOST_VALUES = 48  # resource/v1 ResourceSliceMaxAttributeValuesPerDevice


def is_sorted(values: list[Value]) -> bool:
    """Whether none is larger than the next."""
    return all(_order(first, second) <= 0 for first, second in pairwise(values))


def _order(left: Value, right: Value) -> int:
    """How values compare; upstream passes over those that do not."""
    try:
        return compare(left, right)
    except CelError:
        return 0


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def total(values: list[Value]) -> Value:
        result = zero
        for value in values:
            result = add(result, value)
        return result

    return total


def _extreme(name: str, sign: int) -> Callable[[list[Value]], Value]:
    def extreme(values: list[Value]) -> Value:
        if not values:
            raise CelError(f"{name} called on empty list")
        extreme_value = values[0]
        for value in values[1:]:
            if _order(extreme_value, value) == sign:
                extreme_value = value
        return extreme_value

    return extreme


def _is(value: Value, wanted: Value) -> bool:
    try:
        return equal(value, wanted)
    except CelError:
        return False


def position(values: list[Value], wanted: Value) -> int:
    """Where a value is; -1 for nowhere."""
    return next((i for i, value in enumerate(values) if _is(value, wanted)), -1)


def last_position(values: list[Value], wanted: Value) -> int:
    """Where a value is for the last time; -1 for nowhere."""
    return next((i for i in range(len(values) - 1, -1, -1) if _is(values[i], wanted)), -1)


def slice_of(values: list[Value], start: int, end: int) -> list[Value]:
    """The values from one position to before another. Raises CelError, as the others do."""
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def flatten(values: list[Value], depth: int = 1) -> list[Value]:
    """Lists within the list taken apart, to a depth; a list of anything else, of which the checker could not tell
    what it is, stays as it is."""
    if not isinstance(values, list) or type(depth) is not int:
        raise CelError(NO_SUCH_OVERLOAD)
    if depth < 0:
        raise CelError("level must be non-negative")
    for _ in range(min(depth, _DEEPEST)):
        if not any(isinstance(value, list) for value in values):
            break
        spend(sum(len(value) if isinstance(value, list) else 1 for value in values))
        values = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return values


def sort_by(values: list[Value], keys: list[Value]) -> list[Value]:
    """The values in the order of their keys."""
    if len(values) != len(keys):
        what = "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
        raise CelError(f"{what} {len(values)} and {len(keys)} elements respectively")
    if len({type_name(key) for key in keys}) > 1:
        raise CelError("list elements must have the same type")
    order = sorted(range(len(keys)), key=lambda i: cmp_to_key(_order)(keys[i]))
    return [values[i] for i in order]


def distinct(values: list[Value]) -> list[Value]:
    """The values without repetitions."""
    kept: list[Value] = []
    for value in values:
        if not any(_is(value, other) for other in kept):
            kept.append(value)
    return kept


def numbers(count: int) -> list[int]:
    """``lists.range(n)``"""
    return list(range(count))


def contains_all(values: list[Value], wanted: list[Value]) -> bool:
    """Whether each value of one list is in the other."""
    return all(contains(values, value) for value in wanted)


def includes(target: Value, wanted: Value) -> bool:
    """Whether a value is another, or a list, of not more than one attribute can hold, has it.

    Upstream: includesFunc in dynamic-resource-allocation/cel/compile.go (v1.36).
    """
    if not isinstance(target, list):
        return _is(target, wanted)
    if position(target[:_MOST_VALUES], wanted) >= 0:
        return True
    if len(target) > _MOST_VALUES:
        raise CelError(f"'includes' function cannot be applied to lists longer than {_MOST_VALUES} values")
    return False


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **{f"{{list({t})}}.isSorted() bool": is_sorted for t in _COMPARABLE},
    **{f"{{list({t})}}.sum() {t}": _sum(zero) for t, zero in _ZEROS.items()},
    **{f"{{list({t})}}.max() {t}": _extreme("max", -1) for t in _COMPARABLE},
    **{f"{{list({t})}}.min() {t}": _extreme("min", 1) for t in _COMPARABLE},
    "{list(A)}.indexOf(A) int": position,
    "{list(A)}.lastIndexOf(A) int": last_position,
    "{list(T)}.slice(int, int) list(T)": slice_of,
    "{list(list(T))}.flatten() list(T)": flatten,
    "{list(dyn)}.flatten(int) list(dyn)": flatten,
    **{f"{{list({t})}}.sort() list({t})": lambda values: sort_by(values, values) for t in _COMPARABLE},
    **{f"{{list(T)}}.@sortByAssociatedKeys(list({t})) list(T)": sort_by for t in _COMPARABLE},
    "lists.range(int) list(int)": numbers,
    "{list(T)}.reverse() list(T)": lambda values: values[::-1],
    "{list(T)}.distinct() list(T)": distinct,
    "{dyn}.includes(dyn) bool": includes,
    "sets.contains(list(T), list(T)) bool": contains_all,
    "sets.equivalent(list(T), list(T)) bool": lambda a, b: contains_all(a, b) and contains_all(b, a),
    "sets.intersects(list(T), list(T)) bool": lambda a, b: any(contains(b, value) for value in a),
}
