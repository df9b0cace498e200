"""Comprehensions while they run.

Upstream: evalFold and folder in github.com/google/cel-go/interpreter/interpretable.go (v0.26). The accumulator is
computed when it is first asked for, and may hold an error, which steps can absorb.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kschedctl.cel.compilation.costs import LIMIT
from kschedctl.cel.compilation.steps import COST, Frame, Run
from kschedctl.cel.errors import CelError, CostLimitError
from kschedctl.cel.values import Growing, GrowingMap, Map, Value, type_name


@dataclass(frozen=True, slots=True)
class Deferred:
    """An accumulator that nobody has asked for."""

    initial: Run

    def get(self, frame: Frame, slot: int) -> Value:
        """The value, which it has from now on. Raises CelError."""
        try:
            value = self.initial(frame)
        except CelError as error:
            frame[slot] = error
            raise
        if isinstance(value, list | Map) and not value:
            value = Growing() if isinstance(value, list) else GrowingMap()
        frame[slot] = value
        return value


@dataclass(frozen=True, slots=True)
class Loop:
    """What a comprehension computes, in order, and the slots of its accumulator and its variables."""

    ranged: Run
    initial: Run
    condition: Run
    step: Run
    result: Run
    accumulator: int
    variables: tuple[int, ...]


def looped(loop: Loop) -> Run:
    """How to run a comprehension."""
    ranged, initial, condition, step, result = loop.ranged, loop.initial, loop.condition, loop.step, loop.result
    accumulator, variables = loop.accumulator, loop.variables

    def run(frame: Frame) -> Value:
        values = _elements(ranged(frame), len(variables) == 2)
        frame[accumulator] = Deferred(initial)
        for element in values:
            for slot, value in zip(variables, element, strict=True):
                frame[slot] = value
            if frame[COST] > LIMIT:
                raise CostLimitError
            if not _goes_on(condition, frame):
                break
            try:
                frame[accumulator] = step(frame)
            except CelError as error:
                frame[accumulator] = error
        return _finished(result(frame))

    return run


def bound(slot: int, initial: Run, result: Run) -> Run:
    """How to run what only names a value: the macro cel.bind."""

    def run(frame: Frame) -> Value:
        frame[slot] = Deferred(initial)
        return _finished(result(frame))

    return run


def _goes_on(condition: Run, frame: Frame) -> bool:
    try:
        return condition(frame) is not False
    except CelError:
        return True


def _finished(value: Value) -> Value:
    """What no step adds to any more."""
    if type(value) is Growing:
        return list(value)
    if type(value) is GrowingMap:
        return Map((key, value.own(key)) for key in value)
    return value


def _elements(value: Value, both: bool) -> Iterable[tuple[Value, ...]]:
    """What the variables are, one after another. Raises CelError."""
    if isinstance(value, list):
        return enumerate(value) if both else ((item,) for item in value)
    if isinstance(value, Map):
        return [(key, value.own(key)) if both else (key,) for key in value]
    raise CelError(f"got '{type_name(value)}', expected iterable type")
