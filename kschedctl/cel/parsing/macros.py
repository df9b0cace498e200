"""Calls that stand for other expressions: ``has``, comprehensions, ``cel.bind``, ``optMap``, ``sortBy``.

Upstream: github.com/google/cel-go/parser/macro.go, ext/{bindings,comprehensions,lists}.go and cel/library.go (v0.26).
Where upstream copies the target of a macro, the copies are one node here, which is checked and planned once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kschedctl.cel.errors import CompileError
from kschedctl.cel.parsing.syntax import (
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

_Maker = Callable[[Call], SyntaxNode | None]


def expand(call: Call) -> SyntaxNode:
    """What a call stands for, or itself. Raises CompileError with the offset and the fault."""
    macro = _MACROS.get((call.function, len(call.args), call.target is not None))
    expanded = macro(call) if macro else None
    return expanded or call


def _call(near: SyntaxNode, function: str, *args: SyntaxNode, target: SyntaxNode | None = None) -> Call:
    return Call(near.at, near.height, function, target, args)


def _accumulated(near: SyntaxNode) -> Ident:
    return Ident(near.at, 0, ACCUMULATOR)


def _constant(near: SyntaxNode, value: object) -> Literal:
    return Literal(near.at, 0, value)


def _name(node: SyntaxNode, fault: str) -> str:
    if not isinstance(node, Ident):
        raise CompileError(node.at, fault)
    return node.name


def _names(call: Call, count: int) -> tuple[str, ...]:
    """The first arguments, which name the variables."""
    fault = "argument must be a simple name"
    if count == 1 and call.function in ("map", "filter"):
        fault = "argument is not an identifier"
    names = tuple(_name(node, fault) for node in call.args[:count])
    if len(set(names)) < count:
        raise CompileError(call.args[1].at, f"duplicate variable name: {names[0]}")
    for node, name in zip(call.args, names, strict=False):
        if name in (ACCUMULATOR, "__result__"):
            raise CompileError(node.at, "iteration variable overwrites accumulator variable")
    return names


@dataclass(frozen=True)
class _Loop:
    """What a comprehension does, besides its range and names."""

    initial: SyntaxNode
    step: SyntaxNode
    condition: SyntaxNode | None = None
    result: SyntaxNode | None = None


def _build_fold(call: Call, count: int, loop: _Loop) -> Fold:
    """Build a comprehension over the call's target with `count` loop variables."""
    assert call.target is not None
    return Fold(
        call.at,
        call.height,
        call.target,
        _names(call, count),
        ACCUMULATOR,
        loop.initial,
        loop.condition or _constant(call, True),
        loop.step,
        loop.result or _accumulated(call),
    )


def _expand_has(call: Call) -> SyntaxNode:
    """Expand `has(a.b)` into a test for the field."""
    operand = call.args[0]
    if not isinstance(operand, Select):
        raise CompileError(operand.at, "invalid argument to has() macro")
    return Select(call.at, operand.height, operand.operand, operand.field, tests=True)


def _all(call: Call) -> SyntaxNode:
    step = _call(call, "_&&_", _accumulated(call), call.args[-1])
    condition = _call(call, "@not_strictly_false", _accumulated(call))
    return _build_fold(call, len(call.args) - 1, _Loop(_constant(call, True), step, condition))


def _exists(call: Call) -> SyntaxNode:
    step = _call(call, "_||_", _accumulated(call), call.args[-1])
    condition = _call(call, "@not_strictly_false", _call(call, "!_", _accumulated(call)))
    return _build_fold(call, len(call.args) - 1, _Loop(_constant(call, False), step, condition))


def _expand_exists_one(call: Call) -> SyntaxNode:
    """Expand `list.exists_one(x, condition)` into a loop that counts matches."""
    more = _call(call, "_+_", _accumulated(call), _constant(call, 1))
    step = _call(call, "_?_:_", call.args[-1], more, _accumulated(call))
    result = _call(call, "_==_", _accumulated(call), _constant(call, 1))
    return _build_fold(call, len(call.args) - 1, _Loop(_constant(call, 0), step, result=result))


def _map(call: Call) -> SyntaxNode:
    return _collected(call, 1, ListOf(call.at, 0, ()), _appended(call, call.args[-1]))


def _filter(call: Call) -> SyntaxNode:
    step = _call(call, "_?_:_", call.args[1], _appended(call, call.args[0]), _accumulated(call))
    return _build_fold(call, 1, _Loop(ListOf(call.at, 0, ()), step))


def _transform_list(call: Call) -> SyntaxNode:
    return _collected(call, 2, ListOf(call.at, 0, ()), _appended(call, call.args[-1]))


def _transform_map(call: Call) -> SyntaxNode:
    step = _call(call, "cel.@mapInsert", _accumulated(call), call.args[0], call.args[-1])
    return _collected(call, 2, MapOf(call.at, 0), step)


def _transform_map_entry(call: Call) -> SyntaxNode:
    return _collected(call, 2, MapOf(call.at, 0), _call(call, "cel.@mapInsert", _accumulated(call), call.args[-1]))


def _appended(call: Call, item: SyntaxNode) -> SyntaxNode:
    return _call(call, "_+_", _accumulated(call), ListOf(call.at, item.height, (item,)))


def _collected(call: Call, count: int, initial: SyntaxNode, step: SyntaxNode) -> SyntaxNode:
    """A fold with a filter before the last argument where there is one more."""
    if len(call.args) > count + 1:
        step = _call(call, "_?_:_", call.args[count], step, _accumulated(call))
    return _build_fold(call, count, _Loop(initial, step))


def _bound(near: SyntaxNode, name: str, value: SyntaxNode, result: SyntaxNode) -> SyntaxNode:
    """The result with a name for a value, which is computed when it is first asked for."""
    nothing = ListOf(near.at, 0, ())
    return Fold(
        near.at, near.height, nothing, (UNUSED,), name, value, _constant(near, False), Ident(near.at, 0, name), result
    )


def _expand_bind(call: Call) -> SyntaxNode | None:
    """Expand `cel.bind(name, value, expression)`, or return None if the target is not `cel`."""
    if not (isinstance(call.target, Ident) and call.target.name == "cel"):
        return None
    name = _name(call.args[0], "cel.bind() variable names must be simple identifiers")
    return _bound(call, name, call.args[1], call.args[2])


def _expand_optional_map(call: Call) -> SyntaxNode:
    """Expand `optMap` or `optFlatMap` into a conditional on `hasValue`."""
    assert call.target is not None
    name = _name(call.args[0], f"{call.function}() variable name must be a simple identifier")
    value = _call(call, "value", target=call.target)
    mapped = _bound(call, name, value, call.args[1])
    if call.function == "optMap":
        mapped = _call(call, "optional.of", mapped)
    return _call(call, "_?_:_", _call(call, "hasValue", target=call.target), mapped, _call(call, "optional.none"))


def _expand_sort_by(call: Call) -> SyntaxNode:
    """Expand `list.sortBy(x, key)` into a sort by a list of computed keys."""
    if isinstance(call.target, Literal | MapOf):
        fault = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise CompileError(call.target.at, fault)
    assert call.target is not None
    values = Ident(call.at, 0, "@__sortBy_input__")
    keys = _map(Call(call.at, call.height, "map", values, call.args))
    return _bound(call, values.name, call.target, _call(call, "@sortByAssociatedKeys", keys, target=values))


_MACROS: Mapping[tuple[str, int, bool], _Maker] = {
    ("has", 1, False): _expand_has,
    ("bind", 3, True): _expand_bind,
    ("optMap", 2, True): _expand_optional_map,
    ("optFlatMap", 2, True): _expand_optional_map,
    ("sortBy", 2, True): _expand_sort_by,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    **{("all", count, True): _all for count in (2, 3)},
    **{("exists", count, True): _exists for count in (2, 3)},
    **{(name, count, True): _expand_exists_one for name in ("exists_one", "existsOne") for count in (2, 3)},
    **{("transformList", count, True): _transform_list for count in (3, 4)},
    **{("transformMap", count, True): _transform_map for count in (3, 4)},
    **{("transformMapEntry", count, True): _transform_map_entry for count in (3, 4)},
}
