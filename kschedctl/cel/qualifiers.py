"""Selections and indexes: what ``x.f``, ``x[i]``, ``x.?f`` and ``has(x.f)`` give.

Upstream: github.com/google/cel-go/interpreter/attributes.go (v0.26).
"""

from __future__ import annotations

import math

from kschedctl.cel.errors import CelError
from kschedctl.cel.values import MISSING, NONE, Map, Optional, Uint, Value, type_name


def qualified(value: Value, index: Value, optional: bool = False) -> Value:
    """What an index selects. ``optional``, or from something optional: something optional. Raises CelError."""
    if type(value) is Optional:
        if not value:
            return NONE
        value, optional = value.value, True
    found = _find(value, index)
    if optional:
        return NONE if found is MISSING else Optional(found)
    if found is MISSING:
        raise CelError(f"{'index out of bounds' if isinstance(value, list) else 'no such key'}: {_shown(index)}")
    return found


def present(value: Value, name: str) -> bool:
    """Whether a field is there. Raises CelError."""
    if type(value) is Optional:
        if not value:
            return False
        value = value.value
    return _find(value, name) is not MISSING


def _find(value: Value, index: Value) -> Value:
    if isinstance(value, Map):
        return value.find(index)
    if isinstance(value, list):
        at = _position(index)
        return value[at] if 0 <= at < len(value) else MISSING
    return MISSING


def _position(index: Value) -> int:
    if type(index) in (int, Uint) or (type(index) is float and math.isfinite(index)):
        if int(index) == index:
            return int(index)
        raise CelError(f"unsupported index value {index} in list")
    raise CelError(f"unsupported index type '{type_name(index)}' in list")


def _shown(index: Value) -> str:
    return str(index).lower() if isinstance(index, bool) else str(index)
