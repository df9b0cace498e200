"""The smallest parts of a program: computations of single nodes and comprehensions, which count their cost.

A frame holds the cost so far, then the variables. Errors are exceptions, caught only where an operator can absorb them.
If the checker could not tell whether values have an overload's types, the values are tested, containers by their first
element. The accumulator of a comprehension is computed when it is first used, and may hold an error.

Upstream: github.com/google/cel-go/interpreter/{interpretable,decorators,runtimecost,attributes}.go and
common/{decls/decls,types/types}.go (v0.26).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kschedctl.cel.compilation import costs
from kschedctl.cel.compilation.checker import Overload
from kschedctl.cel.compilation.costs import LIMIT
from kschedctl.cel.errors import NO_SUCH_OVERLOAD, AbortedError, CelError, CompileError, CostLimitError
from kschedctl.cel.library import lists, operators
from kschedctl.cel.types import Type
from kschedctl.cel.values import (
    MISSING,
    NONE,
    Duration,
    GrowingList,
    GrowingMap,
    Map,
    Opaque,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    get_type_name,
)


def select_value(value: Value, index: Value, *, optional: bool = False) -> Value:
    """Return the element of a value at an index.

    With ``optional``, or if the value is an Optional, return an Optional, which is empty if the element is missing.
    Otherwise, raise CelError if the element is missing.
    """
    if type(value) is Optional:
        if not value:
            return NONE
        value = value.value
        optional = True
    selected = _find_element(value, index)
    if optional:
        return NONE if selected is MISSING else Optional(selected)
    if selected is MISSING:
        problem = "index out of bounds" if isinstance(value, list) else "no such key"
        raise CelError(f"{problem}: {_format_index(index)}")
    return selected


def has_field(value: Value, name: str) -> bool:
    """Return whether a field of a map or optional map is present. Raises CelError for a list."""
    if type(value) is Optional:
        if not value:
            return False
        value = value.value
    return _find_element(value, name) is not MISSING


def _find_element(value: Value, index: Value) -> Value:
    """Return the element of a map or list at an index, or MISSING. Other values have no elements.

    Raises CelError if the index of a list is not a whole number.
    """
    if isinstance(value, Map):
        return value.look_up(index)
    if isinstance(value, list):
        position = _convert_index_to_position(index)
        return value[position] if 0 <= position < len(value) else MISSING
    return MISSING


def _convert_index_to_position(index: Value) -> int:
    """Convert an index to a position in a list. Raises CelError if the index is not a whole number."""
    if type(index) in (int, Uint) or (type(index) is float and math.isfinite(index)):
        if int(index) == index:
            return int(index)
        raise CelError(f"unsupported index value {index} in list")
    raise CelError(f"unsupported index type '{get_type_name(index)}' in list")


def _format_index(index: Value) -> str:
    """Format an index for an error."""
    return str(index).lower() if isinstance(index, bool) else str(index)


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


def build_argument_guard(parameters: tuple[Type, ...], given_types: list[Type]) -> Callable[..., bool] | None:
    """Build a run-time test that all arguments have the parameter types.

    Return None if the checker has already proved it.
    """
    if all(
        _always_matches(wanted_type, cel_type) for wanted_type, cel_type in zip(parameters, given_types, strict=True)
    ):
        return None
    guards = [
        (i, _build_type_guard(cel_type))
        for i, cel_type in enumerate(parameters)
        if cel_type.kind not in ("dyn", "param")
    ]
    return lambda *values: all(fits(values[i]) for i, fits in guards)


def _always_matches(wanted_type: Type, given_type: Type) -> bool:
    """Return whether every value of the given type also has the wanted type."""
    if wanted_type.kind in ("dyn", "param"):
        return True
    if wanted_type.kind != given_type.kind or wanted_type.name != given_type.name:
        return False
    return all(map(_always_matches, wanted_type.parameters, given_type.parameters))


def _build_type_guard(cel_type: Type) -> Guard:
    """Build a test of a value's type at run time, which looks at one element of a list or map.

    Types that values do not show, such as dyn, accept every value.
    """
    if cel_type.kind in _CLASSES:
        wanted_class = _CLASSES[cel_type.kind]
        return lambda value: type(value) is wanted_class
    if cel_type.kind == "list":
        element_fits = _build_type_guard(cel_type.parameters[0])
        return lambda value: isinstance(value, list) and (not value or element_fits(value[0]))
    if cel_type.kind == "map":
        key_fits, value_fits = map(_build_type_guard, cel_type.parameters)
        return lambda value: (
            isinstance(value, Map) and all(key_fits(k) and value_fits(value.find(k)) for k in list(value)[:1])
        )
    if cel_type.name == "optional_type":
        inner_fits = _build_type_guard(cel_type.parameters[0])
        return lambda value: type(value) is Optional and (not value or inner_fits(value.value))
    if cel_type.kind in ("struct", "opaque"):
        return lambda value: isinstance(value, Opaque) and value.type_name == cel_type.name
    return lambda value: True


Frame = list[Value]
"""The cost so far, then the variables."""
Run = Callable[[Frame], Value]

COST, FIRST = 0, 1
"""The slots of the cost and of the first variable in a frame."""
TEXTS = frozenset([str, bytes])


@dataclass(frozen=True, slots=True)
class Computation:
    """The computation of a node."""

    run: Run
    constant: bool = False
    """True if the value is always the same."""
    attribute: bool = False
    """True if selections from the value count as one."""


_SELF_CHECKING = frozenset([*operators.FUNCTIONS.values(), lists.flatten])
"""Implementations that distinguish the types of their arguments themselves."""
_SET_ITEMS = frozenset([bool, int, Uint, float, str])
_UNHASHABLE = frozenset(["kubernetes.Semver", "kubernetes.NamedFormat"])


def build_constant(value: Value) -> Computation:
    """Build the computation of a constant."""
    return Computation(lambda frame: value, constant=True)


def precompute_constant(step: Computation) -> Computation:
    """Evaluate a constant computation in advance. Raises CompileError if the evaluation fails."""
    frame: Frame = [0]  # a constant reads no variables, so the frame has only the cost
    try:
        return build_constant(step.run(frame))
    except (CelError, CostLimitError) as error:
        raise CompileError(f"program instantiation failed: {error}") from None


def charge_call(frame: Frame, cost: costs.Cost, arguments: Sequence[Value]) -> None:
    """Add a call's cost to the frame before the call. Raises CostLimitError if the total exceeds the limit."""
    try:
        frame[COST] += cost(*arguments)
    except (TypeError, AttributeError):
        # No overload takes these arguments. The call that follows reports that.
        frame[COST] += 1
    if frame[COST] > costs.LIMIT:
        raise CostLimitError


def build_dispatcher(overloads: list[tuple[Callable[..., bool] | None, Overload]]) -> Callable[..., Value]:
    """Build a function that calls the first overload whose guard accepts the values.

    An overload without a guard accepts all values. If the first overload has no guard, or its implementation tests the
    types itself, return that implementation as it is.
    """
    first_guard, first_overload = overloads[0]
    first = first_overload.implementation
    assert first is not None
    if first_guard is None or first in _SELF_CHECKING:
        return first

    def call(*values: Value) -> Value:
        """Call the first overload that accepts the values. Raises CelError if none does."""
        for guard, overload in overloads:
            if guard is None or guard(*values):
                assert overload.implementation is not None
                return overload.implementation(*values)
        raise CelError(NO_SUCH_OVERLOAD)

    return call


def build_binary_call(function: Callable[..., Value], left: Run, right: Run) -> Run:
    """Build the computation of a call that has two arguments and a cost of 1."""

    def run(frame: Frame) -> Value:
        """Evaluate both arguments and call the function."""
        first = left(frame)
        second = right(frame)
        frame[COST] += 1
        return function(first, second)

    return run


def build_field_test(operand: Run, name: str) -> Run:
    """Build the computation of ``has(operand.name)``."""

    def run(frame: Frame) -> Value:
        return has_field(operand(frame), name)

    return run


def build_logical_operation(terms: list[Run], *, decisive: bool) -> Run:
    """Build the computation of ``||`` or ``&&``, in which the value ``decisive`` of a term decides.

    This is true for ``||`` and false for ``&&``. A deciding term absorbs the errors of other terms. Without a deciding
    term, the computation raises the first error.
    """

    def run(frame: Frame) -> Value:
        """Evaluate the terms up to the first decisive one. Without a decisive term, raise the first error."""
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


def build_membership_test(evaluate_item: Run, container: Value) -> Computation:
    """Build the computation that tests if a constant list has an item, or if a constant map has it as a key.

    `evaluate_item` computes the item. Upstream turns a list of simple values into a set, and fails for values that
    cannot be hashed.
    """
    if isinstance(container, list) and not container:
        return build_constant(False)
    is_set = isinstance(container, list) and all(type(item) in _SET_ITEMS for item in container)

    def run(frame: Frame) -> Value:
        """Evaluate the item, and return whether the container has it."""
        item = evaluate_item(frame)
        is_unhashable = type(item) is bytes or (type(item) is Opaque and item.type_name in _UNHASHABLE)
        if is_set and is_unhashable:
            raise AbortedError("internal error: runtime error: hash of unhashable type")
        return operators.is_in(item, container)

    return Computation(run)


def build_optional_choice(left: Run, right: Run, *, keeps_optional: bool) -> Run:
    """Build the computation of ``orValue`` or, with ``keeps_optional``, of ``or``, whose result is still optional."""

    def run(frame: Frame) -> Value:
        """Evaluate the left value, and the right one only if the left one is missing."""
        first = left(frame)
        if type(first) is not Optional:
            return first
        if first:
            return first if keeps_optional else first.value
        return right(frame)

    return run


def is_present(value: Value) -> bool:
    """Return whether an optional entry has a value. Raises CelError if the value is not optional."""
    if type(value) is not Optional:
        raise CelError(f"invalid optional entry: {value}")
    return bool(value)


def unwrap_entry(value: Optional) -> Value:
    """Return the value of an optional entry."""
    return value.value


@dataclass(frozen=True, slots=True)
class DeferredAccumulator:
    """An accumulator that was not computed yet."""

    initial: Run

    def compute(self, frame: Frame, slot: int) -> Value:
        """Compute the value, store it in the slot and return it. Raises CelError, which is stored as well.

        An empty list or map becomes one to which the steps of the loop append in place.
        """
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


def build_loop(loop: Loop) -> Run:
    """Build the function that runs a comprehension.

    An error in a step becomes the value of the accumulator, and is raised only if the accumulator is read afterwards.
    """
    ranged, initial, condition, step, result = loop.ranged, loop.initial, loop.condition, loop.step, loop.result
    accumulator, variables = loop.accumulator, loop.variables

    def run(frame: Frame) -> Value:
        """Run the loop and return its result. Raises CostLimitError if the loop costs too much."""
        values = _iter_elements(ranged(frame), with_keys=len(variables) == 2)
        frame[accumulator] = DeferredAccumulator(initial)
        for element in values:
            for slot, value in zip(variables, element, strict=True):
                frame[slot] = value
            if frame[COST] > LIMIT:
                raise CostLimitError
            if not _should_continue_loop(condition, frame):
                break
            try:
                frame[accumulator] = step(frame)
            except CelError as error:
                frame[accumulator] = error
        return _freeze_accumulator(result(frame))

    return run


def build_binding(slot: int, initial: Run, result: Run) -> Run:
    """Build the function for a comprehension that only gives a name to a value, as ``cel.bind`` does.

    The value is put into ``slot``, and computed when it is first read.
    """

    def run(frame: Frame) -> Value:
        frame[slot] = DeferredAccumulator(initial)
        return _freeze_accumulator(result(frame))

    return run


def _should_continue_loop(condition: Run, frame: Frame) -> bool:
    """Return whether the loop continues. It ends only if the condition is false, not if evaluating it fails."""
    try:
        return condition(frame) is not False
    except CelError:
        return True


def _freeze_accumulator(value: Value) -> Value:
    """Return the final value of an accumulator as a list or map that can no longer grow."""
    if type(value) is GrowingList:
        return list(value)
    if type(value) is GrowingMap:
        return Map((key, value.find(key)) for key in value)
    return value


def _iter_elements(value: Value, *, with_keys: bool) -> Iterable[tuple[Value, ...]]:
    """Return an iterable of the loop variables' values for each element.

    ``with_keys`` adds the index or key before the item. Without it, a map yields only its keys. Raises CelError unless
    the value is a list or map.
    """
    if isinstance(value, list):
        if with_keys:
            return enumerate(value)
        return ((item,) for item in value)
    if isinstance(value, Map):
        if with_keys:
            return [(key, value.find(key)) for key in value]
        return [(key,) for key in value]
    raise CelError(f"got '{get_type_name(value)}', expected iterable type")
