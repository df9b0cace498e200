"""Comprehensions at run time.

Upstream: evalFold and folder in github.com/google/cel-go/interpreter/interpretable.go (v0.26). The accumulator is
computed when it is first used, and may hold an error, which steps can absorb.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kschedctl.cel.compilation.costs import LIMIT
from kschedctl.cel.compilation.steps import COST, Frame, Run
from kschedctl.cel.errors import CelError, CostLimitError
from kschedctl.cel.values import GrowingList, GrowingMap, Map, Value, type_name


@dataclass(frozen=True, slots=True)
class DeferredAccumulator:
    """An accumulator that is not computed yet."""

    initial: Run

    def get(self, frame: Frame, slot: int) -> Value:
        """Compute and store the value. Raises CelError."""
        try:
            value = self.initial(frame)
        except CelError as error:
            frame[slot] = error
            raise
        if isinstance(value, list | Map) and not value:
            value = GrowingList() if isinstance(value, list) else GrowingMap()
        frame[slot] = value
        return value


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts of a comprehension in order of evaluation, and the slots of its accumulator and variables."""

    ranged: Run
    initial: Run
    condition: Run
    step: Run
    result: Run
    accumulator: int
    variables: tuple[int, ...]


def run_loop_of(loop: Loop) -> Run:
    """Return the function that runs a comprehension."""
    ranged, initial, condition, step, result = loop.ranged, loop.initial, loop.condition, loop.step, loop.result
    accumulator, variables = loop.accumulator, loop.variables

    def run(frame: Frame) -> Value:
        values = _iter_elements(ranged(frame), len(variables) == 2)
        frame[accumulator] = DeferredAccumulator(initial)
        for element in values:
            for slot, value in zip(variables, element, strict=True):
                frame[slot] = value
            if frame[COST] > LIMIT:
                raise CostLimitError
            if not _should_continue(condition, frame):
                break
            try:
                frame[accumulator] = step(frame)
            except CelError as error:
                frame[accumulator] = error
        return _freeze(result(frame))

    return run


def run_binding_of(slot: int, initial: Run, result: Run) -> Run:
    """Return the function that runs a comprehension which only names a value: the macro cel.bind."""

    def run(frame: Frame) -> Value:
        frame[slot] = DeferredAccumulator(initial)
        return _freeze(result(frame))

    return run


def _should_continue(condition: Run, frame: Frame) -> bool:
    """Return whether a loop continues: its condition is not false, or cannot be evaluated."""
    try:
        return condition(frame) is not False
    except CelError:
        return True


def _freeze(value: Value) -> Value:
    """Return the final value of an accumulator."""
    if type(value) is GrowingList:
        return list(value)
    if type(value) is GrowingMap:
        return Map((key, value.find_own(key)) for key in value)
    return value


def _iter_elements(value: Value, both: bool) -> Iterable[tuple[Value, ...]]:
    """Yield the values of the variables. Raises CelError."""
    if isinstance(value, list):
        return enumerate(value) if both else ((item,) for item in value)
    if isinstance(value, Map):
        return [(key, value.find_own(key)) if both else (key,) for key in value]
    raise CelError(f"got '{type_name(value)}', expected iterable type")
