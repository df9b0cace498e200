"""The smallest pieces of a program: how parts are computed, with their cost counted.

Upstream: github.com/google/cel-go/interpreter/{interpretable,decorators,runtimecost}.go (v0.26).

A frame holds the cost so far and then the variables. Errors are exceptions; only where an
operator can absorb one is it caught.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kschedctl.cel import costs
from kschedctl.cel.declarations import Overload
from kschedctl.cel.errors import NO_SUCH_OVERLOAD, AbortedError, CelError, CompileError, CostLimitError
from kschedctl.cel.library import lists, operators
from kschedctl.cel.qualifiers import present
from kschedctl.cel.values import Opaque, Optional, Uint, Value

Frame = list[Any]
Run = Callable[[Frame], Value]

COST, FIRST = 0, 1
TEXTS = frozenset([str, bytes])


@dataclass(frozen=True, slots=True)
class Computation:
    """How to compute a part. ``constant``: it is always the same; ``attribute``: selections from it count as one."""

    run: Run
    constant: bool = False
    attribute: bool = False


_TELLS_TYPES = frozenset([*operators.FUNCTIONS.values(), lists.flatten])
_HASHED = frozenset([bool, int, Uint, float, str])
_UNHASHABLE = frozenset(["kubernetes.Semver", "kubernetes.NamedFormat"])


def constant(value: Value) -> Computation:
    """A part that is always the same."""
    return Computation(lambda frame: value, constant=True)


def computed(step: Computation) -> Computation:
    """A part of constants only, computed beforehand. Raises CompileError."""
    try:
        return constant(step.run([0]))
    except (CelError, CostLimitError) as error:
        raise CompileError(f"program instantiation failed: {error}") from None


def charge(frame: Frame, cost: costs.Cost, values: Any) -> None:
    """Count a call before it is made. Raises CostLimitError."""
    try:
        frame[COST] += cost(*values)
    except (TypeError, AttributeError):  # arguments that no overload takes
        frame[COST] += 1
    if frame[COST] > costs.LIMIT:
        raise CostLimitError


def dispatched(overloads: list[tuple[Callable[..., bool] | None, Overload]]) -> Callable[..., Value]:
    """The first overload that the values fit."""
    certain, first = overloads[0][0] is None, overloads[0][1].implementation
    assert first is not None
    if certain or first in _TELLS_TYPES:
        return first

    def call(*values: Value) -> Value:
        for fits, overload in overloads:
            if fits is None or fits(*values):
                assert overload.implementation is not None
                return overload.implementation(*values)
        raise CelError(NO_SUCH_OVERLOAD)

    return call


def binary(function: Callable[..., Value], left: Run, right: Run) -> Run:
    """A call that counts for one."""

    def run(frame: Frame) -> Value:
        first = left(frame)
        second = right(frame)
        frame[COST] += 1
        return function(first, second)

    return run


def tested(operand: Run, name: str) -> Run:
    """``has(operand.name)``"""

    def run(frame: Frame) -> Value:
        return present(operand(frame), name)

    return run


def logical(terms: list[Run], decisive: bool) -> Run:
    """``||`` where true decides, ``&&`` where false does, whatever fails beside it."""

    def run(frame: Frame) -> Value:
        fault: CelError | None = None
        for term in terms:
            try:
                value = term(frame)
                if value is decisive:
                    return decisive
                if type(value) is not bool:
                    raise CelError(NO_SUCH_OVERLOAD)
            except CelError as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return not decisive

    return run


def in_constants(value: Run, among: Value) -> Computation:
    """Membership in a list or map that is always the same; upstream makes a set of a list of simple values."""
    if isinstance(among, list) and not among:
        return constant(False)
    hashed = isinstance(among, list) and all(type(item) in _HASHED for item in among)

    def run(frame: Frame) -> Value:
        wanted = value(frame)
        if hashed and (type(wanted) is bytes or (type(wanted) is Opaque and wanted.type_name in _UNHASHABLE)):
            raise AbortedError("internal error: runtime error: hash of unhashable type")
        return operators.is_in(wanted, among)

    return Computation(run)


def or_value(left: Run, right: Run, keeps: bool) -> Run:
    """``orValue``, and ``or``, which keeps the value optional."""

    def run(frame: Frame) -> Value:
        first = left(frame)
        if type(first) is not Optional:
            return first
        if first:
            return first if keeps else first.value
        return right(frame)

    return run


def is_there(value: Value) -> bool:
    """Whether an optional entry is one. Raises CelError for what is not optional."""
    if type(value) is not Optional:
        raise CelError(f"invalid optional entry: {value}")
    return bool(value)


def held(value: Optional) -> Value:
    """The value of an optional entry."""
    return value.value
