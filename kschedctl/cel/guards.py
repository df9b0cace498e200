"""Whether values have the types that an overload takes, where the checker could not tell.

Upstream: github.com/google/cel-go/common/decls/decls.go and common/types/types.go (v0.26), which looks at the first
element of a container.
"""

from __future__ import annotations

from collections.abc import Callable

from kschedctl.cel.types import Type
from kschedctl.cel.values import Duration, Map, Opaque, Optional, Timestamp, TypeValue, Uint, Value

Guard = Callable[[Value], bool]

_CLASSES: dict[str, type] = {
    "bool": bool,
    "int": int,
    "uint": Uint,
    "double": float,
    "string": str,
    "bytes": bytes,
    "null": type(None),
    "duration": Duration,
    "timestamp": Timestamp,
    "type": TypeValue,
}


def guard(parameters: tuple[Type, ...], given: list[Type]) -> Callable[..., bool] | None:
    """A test of all arguments, None where the checker knows that they fit."""
    if all(_is_certain(wanted, t) for wanted, t in zip(parameters, given, strict=True)):
        return None
    guards = [(i, _guard(t)) for i, t in enumerate(parameters) if t.kind not in ("dyn", "param")]
    return lambda *values: all(fits(values[i]) for i, fits in guards)


def _is_certain(wanted: Type, given: Type) -> bool:
    if wanted.kind in ("dyn", "param"):
        return True
    if wanted.kind != given.kind or wanted.name != given.name:
        return False
    return all(map(_is_certain, wanted.parameters, given.parameters))


def _guard(t: Type) -> Guard:
    if t.kind in _CLASSES:
        wanted = _CLASSES[t.kind]
        return lambda value: type(value) is wanted
    if t.kind == "list":
        element = _guard(t.parameters[0])
        return lambda value: isinstance(value, list) and (not value or element(value[0]))
    if t.kind == "map":
        key, held = map(_guard, t.parameters)
        return lambda value: isinstance(value, Map) and all(key(k) and held(value.own(k)) for k in list(value)[:1])
    if t.name == "optional_type":
        inner = _guard(t.parameters[0])
        return lambda value: type(value) is Optional and (not value or inner(value.value))
    if t.kind in ("struct", "opaque"):
        return lambda value: isinstance(value, Opaque) and value.type_name == t.name
    return lambda value: True
