"""The type checker, which finds the types of all parts of an expression and the meaning of its names and calls.

The declarations of all functions with their overloads are at the top, in upstream's order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from kschedctl.cel.library.messages import MESSAGES, TYPES
from kschedctl.cel.syntax import Call, Fold, Ident, ListOf, Literal, MapOf, Message, Select, SyntaxNode
from kschedctl.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Type,
    Unification,
    build_type,
    get_most_general_type,
    is_dyn,
    is_dyn_or_error,
    list_of,
    map_of,
    optional_of,
    parse_type,
    unwrap_optional,
)
from kschedctl.cel.values import TypeValue, Uint, Value

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
"""_Functions that the program implements itself because some arguments may not be evaluated."""

Structs = Mapping[str, Mapping[str, Type]]
Scope = dict[str, Type]

_LITERALS = {bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}


@dataclass(frozen=True, slots=True)
class Overload:
    """An overload of a function."""

    parameters: tuple[Type, ...]
    """The parameter types, beginning with the receiver of a member function."""
    result: Type
    member: bool
    implementation: Callable[..., Value] | None


_Functions = Mapping[str, tuple[Overload, ...]]


@cache
def get_functions() -> _Functions:
    """Return the overloads of all functions by name. Functions that the planner evaluates have no implementation."""
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

    The receiver in braces becomes the first parameter. ``implementation`` is None if the planner evaluates the
    function.
    """
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    receiver, name, arguments, result = match.groups()
    # A list of types is parsed as the parameters of a generic type. Any generic type would do.
    parameters = parse_type(f"map({arguments})").parameters if arguments else ()
    if receiver:
        parameters = (parse_type(receiver), *parameters)
    return name, Overload(parameters, parse_type(result), bool(receiver), implementation)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The function and overloads that a call refers to."""

    function: str
    """The qualified name of the function."""
    overloads: tuple[Overload, ...]
    """The overloads that fit the arguments."""
    target: SyntaxNode | None
    """The receiver, or None if it is part of the name."""


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """An expression with the results of the checker."""

    root: SyntaxNode
    types: Mapping[SyntaxNode, Type]
    calls: Mapping[SyntaxNode, Resolution]
    named_types: Mapping[SyntaxNode, TypeValue]
    errors: list[tuple[int, str]]
    """The error messages with their offsets."""


@dataclass
class Checker:
    """The type checker of one expression, which can use ``variables`` and the fields of ``structs``."""

    variables: Mapping[str, Type]
    structs: Structs
    functions: _Functions
    types: dict[SyntaxNode, Type] = field(default_factory=dict)
    """The types of the nodes that were checked, with type parameters."""
    calls: dict[SyntaxNode, Resolution] = field(default_factory=dict)
    named_types: dict[SyntaxNode, TypeValue] = field(default_factory=dict)
    """The types that nodes name, such as `int` in `type(x) == int`."""
    errors: list[tuple[int, str]] = field(default_factory=list)
    """The messages of errors, with their offsets in the source."""
    unification: Unification = field(default_factory=Unification)
    scopes: list[Scope] = field(default_factory=list)
    """The types of the visible names, the innermost scope last."""

    def check(self, root: SyntaxNode) -> CheckedExpression:
        """Check the types of an expression, and return it with its types, resolved calls and errors.

        Raises CompileError if a type becomes too large.
        """
        self.scopes = [dict(self.variables)]
        self.infer_type(root)
        types = {node: self.unification.resolve(cel_type, final=True) for node, cel_type in self.types.items()}
        return CheckedExpression(root, types, self.calls, named_types=self.named_types, errors=self.errors)

    def infer_type(self, node: SyntaxNode) -> Type:
        """Return the type of a node, and record the errors in it.

        A node that a macro uses twice is checked only once.
        """
        if node not in self.types:
            self.types[node] = self._check_node(node)
        return self.types[node]

    def _check_node(self, node: SyntaxNode) -> Type:
        """Return the type of a node that was not checked yet."""
        if isinstance(node, Literal):
            return _LITERALS[type(node.value)]
        return _CHECKS[type(node)](self, node)

    def _add_error(self, offset: int, message: str) -> Type:
        """Record an error and return the error type."""
        self.errors.append((offset, message))
        return ERROR

    # -- names ---------------------------------------------------------------------------------------------------

    def _resolve_name(self, node: SyntaxNode, name: str) -> Type | None:
        """Return the type of the variable that a name refers to, or None if the name is unknown.

        For the name of a type, return the type ``type``, and record the named type in `named_types`.
        """
        name = name.lstrip(".")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        cel_type = TYPES.get(name)
        if cel_type is None and name in self.structs:
            cel_type = build_type("struct", name)
        if cel_type is None:
            return None
        self.named_types[node] = TypeValue(name)
        return build_type("type", "", cel_type)

    def _check_identifier(self, node: Ident) -> Type:
        """Return the type of a name."""
        cel_type = self._resolve_name(node, node.name)
        return cel_type or self._add_undeclared_error(node.offset, node.name)

    def _add_undeclared_error(self, offset: int, name: str) -> Type:
        """Record the error for an unknown name, and return the error type."""
        return self._add_error(offset, f"undeclared reference to '{name}' (in container '')")

    def _check_selection(self, node: Select) -> Type:
        """Return the type of `a.b`, which may be a qualified name or the selection of a field.

        The type of `has(a.b)`, which tests whether the field is present, is bool.
        """
        name = _get_qualified_name(node)
        cel_type = self._resolve_name(node, name) if name and not node.tests_presence else None
        if cel_type is not None:
            return cel_type
        result = self._check_field(node.offset, node.operand, node.field, optional=False)
        return BOOL if node.tests_presence else self.unification.resolve(result)

    def _check_field(self, offset: int, operand: SyntaxNode, name: str, *, optional: bool) -> Type:
        """Return the type of a field of the operand, or dyn if the type of the operand is unknown.

        The type is optional for ``a.?b`` (`optional`) and for an optional operand. If the operand cannot have the
        field, an error is recorded.
        """
        target, is_optional = unwrap_optional(self.unification.resolve(self.infer_type(operand)))
        result = DYN
        if target.kind == "map":
            result = target.parameters[1]
        elif target.kind == "struct":
            field_type = self.structs.get(target.name, {}).get(name)
            result = field_type if field_type is not None else self._add_error(offset, f"undefined field '{name}'")
        elif target.kind == "param":
            self.unification.unify((DYN,), (target,))  # an unbound type parameter becomes dyn
        elif not is_dyn_or_error(target):
            self._add_error(offset, f"type '{target}' does not support field selection")
        return optional_of(result) if optional or is_optional else result

    # -- calls ---------------------------------------------------------------------------------------------------

    def _check_call(self, node: Call) -> Type:
        """Return the type of a call to a function, a method or a function with a qualified name."""
        if node.function == "_?._":  # the optional selection `operand.?name`
            operand, name = node.args
            assert isinstance(name, Literal)
            return self.unification.resolve(self._check_field(node.offset, operand, name.value, optional=True))
        for arg in node.args:  # so that errors in them are recorded even if the function is unknown
            self.infer_type(arg)
        if node.target is None:
            return self._resolve_call(node, node.function.lstrip("."), target=None)
        prefix = _get_qualified_name(node.target)
        if prefix:
            qualified_name = f"{prefix}.{node.function}".lstrip(".")  # a leading dot marks an absolute name
            if qualified_name in self.functions:
                return self._resolve_call(node, qualified_name, target=None)
        self.infer_type(node.target)  # as for the arguments
        return self._resolve_call(node, node.function, target=node.target)

    def _resolve_call(self, node: Call, name: str, target: SyntaxNode | None) -> Type:
        """Record the overloads that accept the argument types, and return the type of the call's result.

        `target` is the receiver of a method call, or None. The type is dyn if the results of several overloads differ.
        An error is recorded if the function is unknown, if no overload matches, or if an operand of `&&` or `||` is no
        boolean.
        """
        overloads = self.functions.get(name)
        if overloads is None:
            return self._add_undeclared_error(node.offset, node.function if target is None else name)
        args = (target, *node.args) if target else node.args
        argument_types = tuple(self.infer_type(arg) for arg in args)
        if name in ("_&&_", "_||_"):
            return self._check_logical_operator(node, argument_types, overloads)

        # Find the overloads that accept the arguments, each with its result.
        accepting: list[tuple[Overload, Type]] = []
        is_member_call = target is not None
        for overload in overloads:
            if overload.member is not is_member_call:
                continue
            result = self._find_overload_result(overload, argument_types)
            if result is not None:
                accepting.append((overload, result))
        if not accepting:
            return self._add_unmatched_call_error(node, name, argument_types, member=is_member_call)

        self.calls[node] = Resolution(name, tuple(overload for overload, _ in accepting), target)
        first, *others = [result for _, result in accepting]
        are_all_equal = all(other == first for other in others)
        return first if is_dyn(first) or are_all_equal else DYN

    def _find_overload_result(self, overload: Overload, argument_types: tuple[Type, ...]) -> Type | None:
        """Return the type of an overload's result for arguments of these types, or None if it does not accept them.

        If the overload accepts the arguments, the type parameters in their types are bound.
        """
        fresh: dict[Type, Type] = {}
        parameter_types = tuple(self.unification.instantiate(cel_type, fresh) for cel_type in overload.parameters)
        if not self.unification.unify(argument_types, parameter_types):
            return None
        return self.unification.resolve(self.unification.instantiate(overload.result, fresh))

    def _check_logical_operator(
        self, node: Call, argument_types: tuple[Type, ...], overloads: tuple[Overload, ...]
    ) -> Type:
        """Check that all operands of `&&` or `||` are booleans, and return bool or the error type."""
        self.calls[node] = Resolution(node.function, overloads, target=None)
        wrong_indices = [
            i for i, cel_type in enumerate(argument_types) if not self.unification.unify((cel_type,), (BOOL,))
        ]
        for i in wrong_indices:
            self._add_error(node.args[i].offset, f"expected type 'bool' but found '{argument_types[i]}'")
        return ERROR if wrong_indices else BOOL

    def _add_unmatched_call_error(
        self, node: Call, name: str, argument_types: tuple[Type, ...], *, member: bool
    ) -> Type:
        """Record the error that no overload accepts the types of the arguments, and return the error type.

        With ``member``, the message shows the first argument as the receiver of the call.
        """
        type_names = [str(self.unification.resolve(cel_type, final=True)) for cel_type in argument_types]
        receiver = f"{type_names.pop(0)}." if member else ""
        signature = f"{receiver}({', '.join(type_names)})"
        return self._add_error(node.offset, f"found no matching overload for '{name}' applied to '{signature}'")

    # -- literals --------------------------------------------------------------------------------------------------

    def _check_list(self, node: ListOf) -> Type:
        """Check the elements of a list literal, and return the type of the list.

        The list has the most general type of its elements as element type, or dyn if their types do not agree. For an
        empty list, the element type is a new type parameter.
        """
        element_type: Type | None = None
        for i, element in enumerate(node.elements):
            cel_type = self._check_literal_value(element, optional=i in node.optional)
            element_type = self._join_types(element_type, cel_type)
        return list_of(element_type or self.unification.create_parameter())

    def _check_map(self, node: MapOf) -> Type:
        """Return the type of a map literal.

        The key type and the value type are dyn if the entries do not agree, and new type parameters if there are no
        entries.
        """
        keys: Type | None = None
        values: Type | None = None
        for key, value, optional in node.entries:
            keys = self._join_types(keys, self.infer_type(key))
            values = self._join_types(values, self._check_literal_value(value, optional=optional))
        if keys is None or values is None:  # an empty map
            return map_of(self.unification.create_parameter(), self.unification.create_parameter())
        return map_of(keys, values)

    def _check_literal_value(self, node: SyntaxNode, *, optional: bool) -> Type:
        """Return the type of a value in a list, map or message literal.

        For an optional value, such as ``[?x]``, return the type inside the optional. Record an error if the type of the
        value is not optional.
        """
        cel_type = self.infer_type(node)
        if not optional:
            return cel_type
        inner, is_optional = unwrap_optional(cel_type)
        if not is_optional and not is_dyn(cel_type):
            self._add_error(node.offset, f"expected type '{optional_of(cel_type)}' but found '{cel_type}'")
        return inner

    def _join_types(self, before: Type | None, now: Type) -> Type:
        """Return the more general of two types, or dyn if they are not assignable to each other.

        `before` is None for the first type.
        """
        if before is None:
            return now
        return get_most_general_type(before, now) if self.unification.unify((before,), (now,)) else DYN

    def _check_message(self, node: Message) -> Type:
        """Check the fields of a message literal, and return its type. Errors are recorded."""
        name = node.name.lstrip(".")
        message = MESSAGES.get(name)
        fields = message.fields if message else self.structs.get(name)
        if fields is None:
            return self._add_unknown_message_error(node, name)
        for field_name, value, optional, offset in node.fields:
            cel_type = self._check_literal_value(value, optional=optional)
            field_type = fields.get(field_name)
            if field_type is None:
                self._add_error(offset, f"undefined field '{field_name}'")
            elif not self.unification.unify((field_type,), (cel_type,)):
                message_text = (
                    f"expected type of field '{field_name}' is '{field_type}' but provided type is '{cel_type}'"
                )
                self._add_error(offset, message_text)
        return message.result if message else build_type("struct", name)

    def _add_unknown_message_error(self, node: Message, name: str) -> Type:
        """Record that the name of a message literal is undeclared or names no message type, and return the error type.

        The values of the literal's fields are checked nevertheless.
        """
        known_type = self._resolve_name(node, name)
        for message_field in node.fields:
            self.infer_type(message_field.value)
        if known_type is None:
            return self._add_undeclared_error(node.offset, node.name)
        names_some_type = known_type.kind == "type"  # such as int, as opposed to a variable
        if names_some_type:
            return self._add_error(node.offset, f"'{name}' is not a message type")
        return self._add_error(node.offset, f"'{name}' is not a type")

    # -- comprehensions ------------------------------------------------------------------------------------------

    def _check_comprehension(self, node: Fold) -> Type:
        """Return the type of a comprehension.

        An error is recorded unless the condition is a boolean and the step has the type of the accumulator.
        """
        range_type = self.unification.resolve(self.infer_type(node.range))
        accumulator_type = self.infer_type(node.initial)
        # The result can read the accumulator, but not the loop variables.
        self.scopes.append({node.accumulator: accumulator_type})
        self.scopes.append(dict(zip(node.names, self._get_variable_types(node, range_type), strict=True)))
        self._require_type(node.condition, BOOL)
        self._require_type(node.step, accumulator_type)
        self.scopes.pop()
        result = self.infer_type(node.result)
        self.scopes.pop()
        return self.unification.resolve(result)

    def _get_variable_types(self, node: Fold, range_type: Type) -> tuple[Type, ...]:
        """Return the types of the variables of a comprehension, which loops over a list or map.

        If the type of the range is unknown, all variables are dyn. For a range of any other type, an error is recorded,
        and all variables have the error type.
        """
        has_two_variables = len(node.names) == 2
        if range_type.kind == "list":
            return (INT, range_type.parameters[0]) if has_two_variables else range_type.parameters
        if range_type.kind == "map":
            return range_type.parameters if has_two_variables else range_type.parameters[:1]
        if range_type.kind in ("dyn", "error", "param"):
            self.unification.unify((DYN,), (range_type,))  # an unbound type parameter becomes dyn
            return (DYN,) * len(node.names)
        message_text = (
            f"expression of type '{range_type}' cannot be range of a comprehension (must be list, map, or dynamic)"
        )
        self._add_error(node.range.offset, message_text)
        return (ERROR,) * len(node.names)

    def _require_type(self, node: SyntaxNode, required_type: Type) -> None:
        """Record an error if a node does not have the required type."""
        cel_type = self.infer_type(node)
        if not self.unification.unify((required_type,), (cel_type,)):
            self._add_error(node.offset, f"expected type '{required_type}' but found '{cel_type}'")


_CHECKS: Mapping[type[SyntaxNode], Callable[..., Type]] = {
    Ident: Checker._check_identifier,
    Select: Checker._check_selection,
    Call: Checker._check_call,
    ListOf: Checker._check_list,
    MapOf: Checker._check_map,
    Message: Checker._check_message,
    Fold: Checker._check_comprehension,
}


def _get_qualified_name(node: SyntaxNode) -> str:
    """Return ``a.b.c`` for names joined by dots, or "" for other nodes."""
    names = []
    while isinstance(node, Select) and not node.tests_presence:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return ""
    return ".".join([node.name, *reversed(names)])
