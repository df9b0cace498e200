"""The declarations of all functions with their overloads, in upstream's order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from kschedctl.cel.library import (
    conversions,
    formats,
    lists,
    network,
    operators,
    quantities_and_versions,
    regular_expressions,
    texts,
    times,
)
from kschedctl.cel.types import Type, parse_type
from kschedctl.cel.values import Value

_LIBRARIES = (
    operators,
    conversions,
    times,
    texts,
    regular_expressions,
    lists,
    quantities_and_versions,
    network,
    formats,
)
_SIGNATURE = re.compile(r"(?:\{(.+)\}\.)?([^\s(]+)\((.*)\) (.+)")
_LAZY_SIGNATURES = (
    "_?_:_(bool, A, A) A",
    "_||_(bool, bool) bool",
    "_&&_(bool, bool) bool",
    "@not_strictly_false(bool) bool",
    "_==_(A, A) bool",
    "_!=_(A, A) bool",
    "_[_](list(A), int) A",
    "_[_](map(A, B), A) B",
    "_[_](optional(list(V)), int) optional(V)",
    "_[_](optional(map(K, V)), K) optional(V)",
    "_[?_](list(V), int) optional(V)",
    "_[?_](optional(list(V)), int) optional(V)",
    "_[?_](map(K, V), K) optional(V)",
    "_[?_](optional(map(K, V)), K) optional(V)",
    "{optional(V)}.or(optional(V)) optional(V)",
    "{optional(V)}.orValue(V) V",
)
"""Functions that the program implements itself because some arguments may not be evaluated."""


@dataclass(frozen=True, slots=True)
class Overload:
    """An overload of a function."""

    parameters: tuple[Type, ...]
    """The parameter types, beginning with the receiver of a member function."""
    result: Type
    member: bool
    implementation: Callable[..., Value] | None


Functions = Mapping[str, tuple[Overload, ...]]


@cache
def get_functions() -> Functions:
    """Return the overloads of all functions by name."""
    table: dict[str, Callable[..., Value] | None] = dict.fromkeys(_LAZY_SIGNATURES)
    for library in _LIBRARIES:
        table.update(library.FUNCTIONS)
    overloads_of: dict[str, list[Overload]] = {}
    for signature, implementation in table.items():
        name, overload = _parse_overload(signature, implementation)
        overloads_of.setdefault(name, []).append(overload)
    return {name: tuple(overloads) for name, overloads in overloads_of.items()}


def _parse_overload(signature: str, implementation: Callable[..., Value] | None) -> tuple[str, Overload]:
    """Parse a signature such as ``{string}.size() int`` into the function's name and overload.

    The receiver in braces becomes the first parameter.
    """
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    receiver, name, arguments, result = match.groups()
    parameters = parse_type(f"map({arguments})").parameters if arguments else ()
    if receiver:
        parameters = (parse_type(receiver), *parameters)
    return name, Overload(parameters, parse_type(result), bool(receiver), implementation)
