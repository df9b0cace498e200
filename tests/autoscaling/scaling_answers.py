"""Convert the answers of real autoscalers and ours to a comparable form."""

from __future__ import annotations

import json
import math
from typing import Any

from golden_cases import Json


def drop_empty_parts(value: Any, ordered: frozenset[str], key: str = "") -> Any:
    """Return the answer without empty parts. Lists are sorted unless their keys are in ``ordered``."""
    if isinstance(value, dict):
        found: Json = {name: drop_empty_parts(each, ordered, name) for name, each in value.items()}
        return {name: each for name, each in found.items() if each is not False and each not in (None, [], {}, "")}
    if isinstance(value, list):
        items = [drop_empty_parts(each, ordered) for each in value]
        return items if key in ordered else sorted(items, key=lambda each: json.dumps(each, sort_keys=True))
    return value


def is_same(got: Any, wanted: Any) -> bool:
    """Return whether two answers are equal.

    Numbers are compared to nine digits, and empty parts equal missing ones.
    """
    if isinstance(got, dict) and isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(is_same(got[key], wanted[key]) for key in got)
    if isinstance(got, list) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(is_same, got, wanted))
    if isinstance(got, float | int) and isinstance(wanted, float | int):
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return bool(got == wanted) or not (got or wanted)
