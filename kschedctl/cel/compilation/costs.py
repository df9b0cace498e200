"""The cost of calls, which upstream limits to a million.

Upstream: github.com/google/cel-go/interpreter/runtimecost.go and ext/{lists,sets}.go (v0.26),
staging/src/k8s.io/apiserver/pkg/cel/library/cost.go (v1.36). All costs, even that of ``join``, follow from the
arguments, so they are counted before a call, and what is too expensive is never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

from kschedctl.cel.values import Map, Opaque, Value, get_cost_size, spend_work

LIMIT = 1_000_000
"""The cost limit: CELSelectorExpressionMaxCost of resource/v1."""
LIST, MAP, MESSAGE = 10, 30, 40
"""The costs of building a list, a map and a message."""

Cost = Callable[..., int]

_TRAVERSAL, _PATTERN = 0.1, 0.25
"""Upstream's factors for the length of a traversed text, and for the length of a pattern."""


def _compute_text_cost(text: Value, *_further_arguments: Value) -> int:
    """Return the cost of traversing the first argument once."""
    return ceil(get_cost_size(text) * _TRAVERSAL)


def _compute_double_text_cost(text: Value, *_further_arguments: Value) -> int:
    """Return the cost of traversing the first argument twice."""
    return ceil(get_cost_size(text) * 2 * _TRAVERSAL)


def _compute_pattern_cost(text: Value, pattern: Value, *_further_arguments: Value) -> int:
    """Return the cost of searching for a pattern."""
    return ceil((1.0 + get_cost_size(text)) * _TRAVERSAL) * ceil(get_cost_size(pattern) * _PATTERN)


def _compute_substring_cost(text: Value, part: Value) -> int:
    """Return the cost of searching for a part of a text."""
    return ceil(get_cost_size(text) * _TRAVERSAL) * ceil(get_cost_size(part) * _TRAVERSAL)


def _compute_traversal_cost(value: Value, *_further_arguments: Value) -> int:
    """Return the cost of traversing a value, however deeply it is nested."""
    if isinstance(value, str):
        return int(len(value.encode()) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if isinstance(value, list):
        spend_work(len(value))
        return sum(map(_compute_traversal_cost, value))
    if isinstance(value, Map):
        spend_work(len(value))
        return sum(_compute_traversal_cost(key) + _compute_traversal_cost(value.find(key)) for key in value)
    return 1


def _compute_join_cost(parts: list[Value], separator: str = "") -> int:
    """Return the cost of joining texts, from the length of the result."""
    length = sum(get_cost_size(part) for part in parts) + max(len(parts) - 1, 0) * len(separator)
    return ceil(length * 2 * _TRAVERSAL)


def compute_shorter_cost(left: Value, right: Value) -> int:
    """Return the cost of traversing the shorter of two values."""
    return ceil(min(get_cost_size(left), get_cost_size(right)) * _TRAVERSAL)


def compute_equality_cost(left: Value, right: Value) -> int:
    """Return the cost of ``==``: 1 for an opaque value, otherwise the cost of traversing the shorter value."""
    return 1 if isinstance(left, Opaque) else compute_shorter_cost(left, right)


def _compute_ordering_cost(left: Value, right: Value) -> int:
    """Return the cost of a comparison by order: the cost of traversing the shorter text, or 1 for other values."""
    return compute_shorter_cost(left, right) if isinstance(left, str | bytes) else 1


def _compute_addition_cost(left: Value, right: Value) -> int:
    """Return the cost of ``+``: the cost of traversing two texts, or 1 for other values."""
    return ceil((get_cost_size(left) + get_cost_size(right)) * _TRAVERSAL) if isinstance(left, str | bytes) else 1


def _compute_membership_cost(value: Value, container: Value) -> int:
    """Return the cost of ``in``: the length of a list, or 1 for a map."""
    return get_cost_size(container) if isinstance(container, list) else 1


def _compute_list_cost(count: int, factor: float = 1) -> int:
    """Return the cost of building a list of ``count`` elements, each of which costs ``factor``."""
    return int(count * factor) + 1 + LIST


def _compute_quadratic_cost(values: Value, *_further_arguments: Value) -> int:
    """Return the cost of comparing each value of a list with each other."""
    has_texts = isinstance(values, list) and values and isinstance(values[0], str | bytes)
    factor = 2.1 if has_texts else 2.0
    return _compute_list_cost(get_cost_size(values) ** 2, factor)


def _compute_contains_ip_cost(cidr: Value, other: Value) -> int:
    """Return the cost of ``containsIP``."""
    parsing_cost = _compute_text_cost(other) if isinstance(other, str) else 0
    return ceil(2 * get_cost_size(cidr) * _TRAVERSAL) + parsing_cost


def _compute_contains_cidr_cost(cidr: Value, other: Value) -> int:
    """Return the cost of ``containsCIDR``."""
    return _compute_contains_ip_cost(cidr, other) + ceil(get_cost_size(cidr) * _TRAVERSAL) + 1


def _build_set_cost(factor: int) -> Cost:
    """Build the cost function of comparing each element of one list with each element of another.

    Each comparison costs ``factor``.
    """
    return lambda left, right: 1 + get_cost_size(left) * get_cost_size(right) * factor


def _compute_validation_cost(form: Opaque, text: Value) -> int:
    """Return the cost of validating a text by a named format."""
    pattern_size: int = form.wrapped.pattern_size
    return ceil((1.0 + get_cost_size(text)) * _TRAVERSAL) * ceil(pattern_size * _PATTERN)


COSTS: Mapping[str, Cost] = {
    **dict.fromkeys(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"], _compute_traversal_cost),
    **dict.fromkeys(
        ["url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "ip"], _compute_text_cost
    ),
    **dict.fromkeys(["quantity", "isQuantity", "semver", "isSemver", "format", "strings.quote"], _compute_text_cost),
    **dict.fromkeys(["startsWith", "endsWith"], _compute_text_cost),
    **dict.fromkeys(["replace", "split", "ip.isCanonical"], _compute_double_text_cost),
    **dict.fromkeys(["find", "findAll", "matches"], _compute_pattern_cost),
    **dict.fromkeys(["_<_", "_<=_", "_>_", "_>=_"], _compute_ordering_cost),
    "string": lambda value: _compute_text_cost(value) if isinstance(value, bytes) else 1,
    "bytes": lambda value: _compute_text_cost(value) if isinstance(value, str) else 1,
    "contains": _compute_substring_cost,
    "join": _compute_join_cost,
    "_+_": _compute_addition_cost,
    "@in": _compute_membership_cost,
    "slice": lambda values, start, end: _compute_list_cost(max(end - start, 0)),
    "flatten": lambda values, depth=1: _compute_list_cost(get_cost_size(values), max(depth, 0)),
    "reverse": lambda values: _compute_list_cost(get_cost_size(values)),
    "lists.range": lambda count: _compute_list_cost(max(count, 0)),
    "distinct": _compute_quadratic_cost,
    "sort": _compute_quadratic_cost,
    "@sortByAssociatedKeys": lambda values, keys: _compute_quadratic_cost(keys),
    "sets.contains": _build_set_cost(1),
    "sets.intersects": _build_set_cost(1),
    "sets.equivalent": _build_set_cost(2),
    "containsIP": _compute_contains_ip_cost,
    "containsCIDR": _compute_contains_cidr_cost,
    "validate": _compute_validation_cost,
}
"""The cost function of each called function. All other functions cost one."""
