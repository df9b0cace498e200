"""What a call counts for: the cost that upstream's limit of a million is about.

Upstream: github.com/google/cel-go/interpreter/runtimecost.go and ext/{lists,sets}.go (v0.26),
staging/src/k8s.io/apiserver/pkg/cel/library/cost.go (v1.36). All costs follow from the arguments, ``join``'s too, so
they are counted before a call: what is too expensive is never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

from kschedctl.cel.meter import spend
from kschedctl.cel.values import Map, Opaque, Value, size

LIMIT = 1_000_000
"""resource/v1 CELSelectorExpressionMaxCost."""
LIST, MAP, MESSAGE = 10, 30, 40
"""What making one counts for."""

Cost = Callable[..., int]

_TRAVERSAL, _PATTERN = 0.1, 0.25


def _text(times: int = 1) -> Cost:
    return lambda first, *rest: ceil(size(first) * times * _TRAVERSAL)


def _pattern(text: Value, pattern: Value, *rest: Value) -> int:
    return ceil((1.0 + size(text)) * _TRAVERSAL) * ceil(size(pattern) * _PATTERN)


def _part(text: Value, part: Value) -> int:
    return ceil(size(text) * _TRAVERSAL) * ceil(size(part) * _TRAVERSAL)


def _traversal(value: Value, *rest: Value) -> int:
    """What looking at a value counts for, however it nests."""
    if isinstance(value, str | bytes):
        return int(len(value.encode() if isinstance(value, str) else value) * _TRAVERSAL)
    if isinstance(value, list):
        spend(len(value))
        return sum(map(_traversal, value))
    if isinstance(value, Map):
        spend(len(value))
        return sum(_traversal(key) + _traversal(value.own(key)) for key in value)
    return 1


def _joined(parts: list[Value], separator: str = "") -> int:
    length = sum(size(part) for part in parts) + max(len(parts) - 1, 0) * len(separator)
    return ceil(length * 2 * _TRAVERSAL)


def _shorter(left: Value, right: Value) -> int:
    return ceil(min(size(left), size(right)) * _TRAVERSAL)


def equality(left: Value, right: Value) -> int:
    """What ``==`` counts for."""
    return 1 if isinstance(left, Opaque) else _shorter(left, right)


def inequality(left: Value, right: Value) -> int:
    """What ``!=`` counts for."""
    return _shorter(left, right)


def _ordered(left: Value, right: Value) -> int:
    return _shorter(left, right) if isinstance(left, str | bytes) else 1


def _sum(left: Value, right: Value) -> int:
    return ceil((size(left) + size(right)) * _TRAVERSAL) if isinstance(left, str | bytes) else 1


def _member(value: Value, container: Value) -> int:
    return size(container) if isinstance(container, list) else 1


def _made(count: int, factor: float = 1) -> int:
    """What making a list counts for."""
    return int(count * factor) + 1 + LIST


def _with_itself(values: Value, *rest: Value) -> int:
    factor = 2.1 if isinstance(values, list) and values and isinstance(values[0], str | bytes) else 2.0
    return _made(size(values) ** 2, factor)


def _in_network(cidr: Value, other: Value) -> int:
    return ceil(2 * size(cidr) * _TRAVERSAL) + (_text()(other) if isinstance(other, str) else 0)


def _network_in_network(cidr: Value, other: Value) -> int:
    return _in_network(cidr, other) + ceil(size(cidr) * _TRAVERSAL) + 1


def _sets(factor: int) -> Cost:
    return lambda left, right: 1 + size(left) * size(right) * factor


def _validated(form: Opaque, text: Value) -> int:
    pattern_size: int = form.held.pattern_size
    return ceil((1.0 + size(text)) * _TRAVERSAL) * ceil(pattern_size * _PATTERN)


COSTS: Mapping[str, Cost] = {
    **dict.fromkeys(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"], _traversal),
    **dict.fromkeys(["url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "ip"], _text()),
    **dict.fromkeys(["quantity", "isQuantity", "semver", "isSemver", "format", "strings.quote"], _text()),
    **dict.fromkeys(["startsWith", "endsWith"], _text()),
    **dict.fromkeys(["replace", "split", "ip.isCanonical"], _text(2)),
    **dict.fromkeys(["find", "findAll", "matches"], _pattern),
    **dict.fromkeys(["_<_", "_<=_", "_>_", "_>=_"], _ordered),
    "string": lambda value: _text()(value) if isinstance(value, bytes) else 1,
    "bytes": lambda value: _text()(value) if isinstance(value, str) else 1,
    "contains": _part,
    "join": _joined,
    "_+_": _sum,
    "@in": _member,
    "slice": lambda values, start, end: _made(max(end - start, 0)),
    "flatten": lambda values, depth=1: _made(size(values), max(depth, 0)),
    "reverse": lambda values: _made(size(values)),
    "lists.range": lambda count: _made(max(count, 0)),
    "distinct": _with_itself,
    "sort": _with_itself,
    "@sortByAssociatedKeys": lambda values, keys: _with_itself(keys),
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "containsIP": _in_network,
    "containsCIDR": _network_in_network,
    "validate": _validated,
}
"""The costs of calls by function; every other call counts for one."""
