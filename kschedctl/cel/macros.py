"""Macros, which are calls that expand to other expressions, such as ``has``, comprehensions and ``cel.bind``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kschedctl.cel.errors import CompileError
from kschedctl.cel.syntax import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Fold,
    Ident,
    ListOf,
    Literal,
    MapOf,
    Select,
    SyntaxNode,
)

_Expander = Callable[[Call], SyntaxNode | None]


def expand_macro(call: Call) -> SyntaxNode:
    """Return the expansion of a call to a macro. Any other call is returned unchanged.

    Raises CompileError with offset and message if the macro's arguments are invalid.
    """
    macro = _MACROS.get((call.function, len(call.args), call.target is not None))
    expanded = macro(call) if macro else None
    return expanded or call


def _build_call(near: SyntaxNode, function: str, *args: SyntaxNode, target: SyntaxNode | None = None) -> Call:
    """Build a call of a function or, with a target, of a method, at the position of the node ``near``."""
    return Call(near.offset, near.height, function, target, args)


def _build_accumulator(near: SyntaxNode) -> Ident:
    """Build a reference to the accumulator."""
    return Ident(near.offset, height=0, name=ACCUMULATOR)


def _build_constant(near: SyntaxNode, value: object) -> Literal:
    """Build a literal with this value, at the position of the node ``near``."""
    return Literal(near.offset, height=0, value=value)


def _build_empty_list(near: SyntaxNode) -> ListOf:
    """Build a literal of an empty list, at the position of the node ``near``."""
    return ListOf(near.offset, height=0, elements=())


def _build_empty_map(near: SyntaxNode) -> MapOf:
    """Build a literal of an empty map, at the position of the node ``near``."""
    return MapOf(near.offset, height=0, entries=())


def _get_name(node: SyntaxNode, fault: str) -> str:
    """Return the name of an identifier. Raises CompileError with the message ``fault`` for any other node."""
    if not isinstance(node, Ident):
        raise CompileError(node.offset, fault)
    return node.name


def _get_loop_variable_names(call: Call, count: int) -> tuple[str, ...]:
    """Return the names of the loop variables, which are the first `count` arguments.

    Raises CompileError if an argument is not a name, is used twice, or hides the accumulator.
    """
    fault = "argument must be a simple name"
    if count == 1 and call.function in ("map", "filter"):
        fault = "argument is not an identifier"
    names = tuple(_get_name(node, fault) for node in call.args[:count])
    if len(set(names)) < count:
        raise CompileError(call.args[1].offset, f"duplicate variable name: {names[0]}")
    for node, name in zip(call.args, names, strict=False):
        if name in (ACCUMULATOR, "__result__"):
            raise CompileError(node.offset, "iteration variable overwrites accumulator variable")
    return names


@dataclass(frozen=True)
class _Loop:
    """The parts of a comprehension besides its range and names.

    By default, no condition ends the loop early, and the result is the accumulator.
    """

    initial: SyntaxNode
    step: SyntaxNode
    condition: SyntaxNode | None = None
    result: SyntaxNode | None = None


def _build_comprehension(call: Call, count: int, loop: _Loop) -> Fold:
    """Build a comprehension over the call's target with `count` loop variables and the parts of `loop`.

    Without a condition, the loop covers all elements, and without a result, it returns the accumulator. Raises
    CompileError if the name of a loop variable is invalid.
    """
    assert call.target is not None
    return Fold(
        call.offset,
        call.height,
        range=call.target,
        names=_get_loop_variable_names(call, count),
        accumulator=ACCUMULATOR,
        initial=loop.initial,
        condition=loop.condition or _build_constant(call, True),
        step=loop.step,
        result=loop.result or _build_accumulator(call),
    )


def _expand_has(call: Call) -> SyntaxNode:
    """Expand `has(a.b)` into a test whether the field is present. Raises CompileError for any other argument."""
    operand = call.args[0]
    if not isinstance(operand, Select):
        raise CompileError(operand.offset, "invalid argument to has() macro")
    return Select(call.offset, operand.height, operand.operand, operand.field, tests_presence=True)


def _expand_all(call: Call) -> SyntaxNode:
    """Expand ``list.all(x, condition)`` into a loop that ends at the first false condition."""
    step = _build_call(call, "_&&_", _build_accumulator(call), call.args[-1])
    condition = _build_call(call, "@not_strictly_false", _build_accumulator(call))
    loop = _Loop(initial=_build_constant(call, True), step=step, condition=condition)
    return _build_comprehension(call, count=len(call.args) - 1, loop=loop)


def _expand_exists(call: Call) -> SyntaxNode:
    """Expand ``list.exists(x, condition)`` into a loop that ends at the first true condition."""
    step = _build_call(call, "_||_", _build_accumulator(call), call.args[-1])
    condition = _build_call(call, "@not_strictly_false", _build_call(call, "!_", _build_accumulator(call)))
    loop = _Loop(initial=_build_constant(call, False), step=step, condition=condition)
    return _build_comprehension(call, count=len(call.args) - 1, loop=loop)


def _expand_exists_one(call: Call) -> SyntaxNode:
    """Expand `list.exists_one(x, condition)` into a loop that counts matches."""
    incremented = _build_call(call, "_+_", _build_accumulator(call), _build_constant(call, 1))
    step = _build_call(call, "_?_:_", call.args[-1], incremented, _build_accumulator(call))
    result = _build_call(call, "_==_", _build_accumulator(call), _build_constant(call, 1))
    loop = _Loop(initial=_build_constant(call, 0), step=step, result=result)
    return _build_comprehension(call, count=len(call.args) - 1, loop=loop)


def _expand_map(call: Call) -> SyntaxNode:
    """Expand ``list.map(x, item)`` or ``list.map(x, condition, item)`` into a loop that builds a list."""
    step = _build_append_step(call, item=call.args[-1])
    return _build_collecting_fold(call, count=1, initial=_build_empty_list(call), step=step)


def _expand_filter(call: Call) -> SyntaxNode:
    """Expand ``list.filter(x, condition)`` into a loop that keeps elements."""
    element, condition = call.args
    appended = _build_append_step(call, item=element)
    step = _build_call(call, "_?_:_", condition, appended, _build_accumulator(call))
    return _build_comprehension(call, count=1, loop=_Loop(initial=_build_empty_list(call), step=step))


def _expand_transform_list(call: Call) -> SyntaxNode:
    """Expand ``list.transformList(i, x, item)`` into a loop that builds a list.

    A condition may precede the item.
    """
    step = _build_append_step(call, item=call.args[-1])
    return _build_collecting_fold(call, count=2, initial=_build_empty_list(call), step=step)


def _expand_transform_map(call: Call) -> SyntaxNode:
    """Expand ``map.transformMap(k, v, value)`` into a loop that builds a map with the same keys.

    A condition may precede the value.
    """
    key, value = call.args[0], call.args[-1]
    step = _build_call(call, "cel.@mapInsert", _build_accumulator(call), key, value)
    return _build_collecting_fold(call, count=2, initial=_build_empty_map(call), step=step)


def _expand_transform_map_entry(call: Call) -> SyntaxNode:
    """Expand ``map.transformMapEntry(k, v, entry)`` into a loop that builds a map.

    Each entry is itself a map, and all its entries are inserted. A condition may precede the entry.
    """
    step = _build_call(call, "cel.@mapInsert", _build_accumulator(call), call.args[-1])
    return _build_collecting_fold(call, count=2, initial=_build_empty_map(call), step=step)


def _build_append_step(call: Call, item: SyntaxNode) -> SyntaxNode:
    """Build the step that appends an item to the accumulator."""
    return _build_call(call, "_+_", _build_accumulator(call), ListOf(call.offset, item.height, (item,)))


def _build_collecting_fold(call: Call, count: int, initial: SyntaxNode, step: SyntaxNode) -> SyntaxNode:
    """Build a loop that adds to the accumulator for each element.

    The first `count` arguments of the call are the loop variables, and the last one is the item. If there is an
    argument between them, it is a condition that the element must meet.
    """
    has_condition = len(call.args) > count + 1
    if has_condition:
        condition = call.args[count]
        step = _build_call(call, "_?_:_", condition, step, _build_accumulator(call))
    return _build_comprehension(call, count, _Loop(initial=initial, step=step))


def _build_binding(near: SyntaxNode, name: str, value: SyntaxNode, result: SyntaxNode) -> SyntaxNode:
    """Build an expression in which a name stands for a value that is computed on first use.

    This is a fold over an empty list: its accumulator is the name, and its loop never runs.
    """
    return Fold(
        near.offset,
        near.height,
        range=_build_empty_list(near),
        names=(UNUSED,),
        accumulator=name,
        initial=value,
        condition=_build_constant(near, False),
        step=Ident(near.offset, height=0, name=name),
        result=result,
    )


def _expand_bind(call: Call) -> SyntaxNode | None:
    """Expand `cel.bind(name, value, expression)`, or return None if the target is not `cel`.

    Raises CompileError if the first argument is not a simple name.
    """
    if not (isinstance(call.target, Ident) and call.target.name == "cel"):
        return None
    variable, value, result = call.args
    name = _get_name(variable, "cel.bind() variable names must be simple identifiers")
    return _build_binding(call, name, value, result)


def _expand_optional_map(call: Call) -> SyntaxNode:
    """Expand `optMap` or `optFlatMap` into a conditional on `hasValue`.

    Raises CompileError if the first argument is not a simple name.
    """
    assert call.target is not None
    variable, expression = call.args
    name = _get_name(variable, f"{call.function}() variable name must be a simple identifier")
    value = _build_call(call, "value", target=call.target)
    mapped = _build_binding(call, name, value, expression)
    if call.function == "optMap":
        mapped = _build_call(call, "optional.of", mapped)
    has_value = _build_call(call, "hasValue", target=call.target)
    return _build_call(call, "_?_:_", has_value, mapped, _build_call(call, "optional.none"))


def _expand_sort_by(call: Call) -> SyntaxNode:
    """Expand `list.sortBy(x, key)` into a sort by a list of computed keys.

    Raises CompileError if the target is a map or a simple literal.
    """
    if isinstance(call.target, Literal | MapOf):
        fault = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise CompileError(call.target.offset, fault)
    assert call.target is not None
    values = Ident(call.offset, height=0, name="@__sortBy_input__")
    keys = _expand_map(_build_call(call, "map", *call.args, target=values))
    sorted_values = _build_call(call, "@sortByAssociatedKeys", keys, target=values)
    return _build_binding(call, values.name, value=call.target, result=sorted_values)


_MACROS: Mapping[tuple[str, int, bool], _Expander] = {
    ("has", 1, False): _expand_has,
    ("bind", 3, True): _expand_bind,
    ("optMap", 2, True): _expand_optional_map,
    ("optFlatMap", 2, True): _expand_optional_map,
    ("sortBy", 2, True): _expand_sort_by,
    ("map", 2, True): _expand_map,
    ("map", 3, True): _expand_map,
    ("filter", 2, True): _expand_filter,
    **{("all", count, True): _expand_all for count in (2, 3)},
    **{("exists", count, True): _expand_exists for count in (2, 3)},
    **{(name, count, True): _expand_exists_one for name in ("exists_one", "existsOne") for count in (2, 3)},
    **{("transformList", count, True): _expand_transform_list for count in (3, 4)},
    **{("transformMap", count, True): _expand_transform_map for count in (3, 4)},
    **{("transformMapEntry", count, True): _expand_transform_map_entry for count in (3, 4)},
}
