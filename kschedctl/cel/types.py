"""Types of expressions, and the rules by which a value of one type can be used as another."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kschedctl.cel.errors import CompileError

_MAX_SIZE = 2000


@dataclass(frozen=True, slots=True)
class Type:
    """A type. Opaque, struct and param types have a name, and containers have parameters."""

    kind: str
    name: str = ""
    parameters: tuple[Type, ...] = ()
    is_open: bool = field(default=False, compare=False)
    """True if it is or contains a type parameter."""
    size: int = field(default=1, compare=False)
    """The number of types that it consists of."""

    def __str__(self) -> str:
        """Return the type as cel-go shows it in messages."""
        name = self.name or _SHOWN.get(self.kind, self.kind)
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name


_SHOWN = {"error": "!error!"}


def build_type(kind: str, name: str = "", *parameters: Type) -> Type:
    """Build a type. Raises CompileError if it is larger than any sensible expression needs."""
    size = 1 + sum(parameter.size for parameter in parameters)
    if size > _MAX_SIZE:
        raise CompileError("compilation failed: the type of a part of the expression is too large")
    is_open = kind == "param" or any(parameter.is_open for parameter in parameters)
    return Type(kind, name, parameters, is_open=is_open, size=size)


DYN, ANY, ERROR, NULL, BOOL = map(build_type, ["dyn", "any", "error", "null", "bool"])
INT, UINT, DOUBLE, STRING, BYTES = map(build_type, ["int", "uint", "double", "string", "bytes"])
DURATION, TIMESTAMP, TYPE = map(build_type, ["duration", "timestamp", "type"])
SIMPLE = {
    cel_type.kind: cel_type
    for cel_type in (DYN, ANY, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, DURATION, TIMESTAMP, TYPE)
}
STRUCTS = frozenset(
    ["kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL", "kubernetes.NamedFormat", "kubernetes.DRADevice"]
)
"""Types that are objects. Other names with a dot are opaque types."""

_PART = re.compile(r"([A-Za-z_.0-9]+)")


def list_of(element: Type) -> Type:
    """Build the type ``list(element)``."""
    return build_type("list", "", element)


def map_of(key: Type, value: Type) -> Type:
    """Build the type ``map(key, value)``."""
    return build_type("map", "", key, value)


def optional_of(value: Type) -> Type:
    """Build the type ``optional_type(value)``."""
    return build_type("opaque", "optional_type", value)


def parse_type(text: str) -> Type:
    """Parse a type in a signature, such as ``map(string, optional(int))``. Capitals are type parameters.

    >>> str(parse_type("map(string, list(A))"))
    'map(string, list(A))'
    """
    parsed, remainder = _parse_leading_type(text.replace(" ", ""))
    assert not remainder, text
    return parsed


def _parse_leading_type(text: str) -> tuple[Type, str]:
    """Parse a type at the start of a text, and return the type and the remaining text."""
    match = _PART.match(text)
    assert match is not None, text
    name = match[1]
    remainder = text[match.end() :]
    if not remainder.startswith("("):
        return _build_named_type(name, ()), remainder
    parameters: list[Type] = []
    while not remainder.startswith(")"):
        parameter, remainder = _parse_leading_type(remainder[1:])  # after the parenthesis or a comma
        parameters.append(parameter)
    return _build_named_type(name, tuple(parameters)), remainder[1:]


def _build_named_type(name: str, parameters: tuple[Type, ...]) -> Type:
    """Build the type with this name and these parameters, such as ``list`` with its item type.

    A single letter is a type parameter. A name that is neither known here nor one of `STRUCTS` is an opaque type.
    """
    if name in SIMPLE and not parameters:
        return SIMPLE[name]
    if name in ("list", "map", "type", "wrapper"):
        return build_type(name, "", *parameters)
    if name == "optional":
        return optional_of(*parameters)
    if len(name) == 1:
        return build_type("param", name)
    return build_type("struct" if name in STRUCTS else "opaque", name)


def is_dyn(cel_type: Type) -> bool:
    """Return whether nothing is known about values of the type."""
    return cel_type.kind in ("dyn", "any")


def is_dyn_or_error(cel_type: Type) -> bool:
    """Return whether nothing is known about values of the type, or an error hides the type."""
    return cel_type.kind in ("dyn", "any", "error")


def is_optional(cel_type: Type) -> bool:
    """Return whether values of the type may be missing."""
    return cel_type.name == "optional_type"


def unwrap_optional(cel_type: Type) -> tuple[Type, bool]:
    """Return the type of the value, and whether the value may be missing."""
    return (cel_type.parameters[0], True) if is_optional(cel_type) else (cel_type, False)


class Unification:
    """The type parameters that are bound while an expression is checked."""

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []
        self._fresh = 0

    def create_parameter(self) -> Type:
        """Return a new type parameter."""
        self._fresh += 1
        return build_type("param", f"_var{self._fresh}")

    def unify(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        """Return whether each type on the left is assignable to the type at its position on the right.

        If all types are assignable, their type parameters are bound. Otherwise, all bindings stay unchanged.
        """
        mark = len(self._trail)
        if self._unify_all(left, right):
            return True

        # Undo the bindings of the failed attempt
        while len(self._trail) > mark:
            parameter, old_type = self._trail.pop()
            if old_type is None:
                del self._bound[parameter]
            else:
                self._bound[parameter] = old_type
        return False

    def resolve(self, cel_type: Type, final: bool = False) -> Type:
        """Return a type with bound parameters replaced. If ``final``, unbound parameters become dyn."""
        if not cel_type.is_open:
            return cel_type
        if cel_type.kind == "param":
            bound = self._bound.get(cel_type)
            if bound is not None:
                return self.resolve(bound, final)
            return DYN if final else cel_type
        resolved = (self.resolve(parameter, final) for parameter in cel_type.parameters)
        return build_type(cel_type.kind, cel_type.name, *resolved)

    def instantiate(self, cel_type: Type, fresh: dict[Type, Type]) -> Type:
        """Replace the type parameters of a signature's type with new ones.

        `fresh` maps each old parameter to its new one, and is extended.
        """
        if not cel_type.is_open:
            return cel_type
        if cel_type.kind == "param":
            if cel_type not in fresh:
                fresh[cel_type] = self.create_parameter()
            return fresh[cel_type]
        instantiated = (self.instantiate(parameter, fresh) for parameter in cel_type.parameters)
        return build_type(cel_type.kind, cel_type.name, *instantiated)

    def _bind_parameter(self, parameter: Type, cel_type: Type) -> None:
        """Bind a type parameter, so that the binding can be undone."""
        self._trail.append((parameter, self._bound.get(parameter)))
        self._bound[parameter] = cel_type

    def _unify_all(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        """Return whether two lists of types have equal length and can be unified pair by pair."""
        return len(left) == len(right) and all(map(self._unify_pair, left, right))

    def _unify_pair(self, left: Type, right: Type) -> bool:
        """Return whether two types can be unified. If they can, their type parameters are bound.

        Dynamic types and errors can be unified with all types.
        """
        if right.kind == "param":
            can_replace = self._bind_or_check(left, right)
            if can_replace is not None:
                return can_replace
        if left.kind == "param":
            return bool(self._bind_or_check(right, left))
        if is_dyn_or_error(left) or is_dyn_or_error(right):
            return True
        return self._is_assignable(left, right)

    def _is_assignable(self, left: Type, right: Type) -> bool:
        """Return whether two types, neither of which is a type parameter, are assignable to each other."""
        kinds = {left.kind, right.kind}
        if "null" in kinds:
            return kinds <= {"null", "wrapper", "opaque", "struct", "duration", "timestamp"}
        if "wrapper" in kinds:
            return _unwrap_wrapper(left) == _unwrap_wrapper(right)
        if kinds <= {"opaque", "list", "map"}:
            has_same_name = left.kind == right.kind and left.name == right.name
            return has_same_name and self._unify_all(left.parameters, right.parameters)
        # Types of types are assignable to each other whatever their parameters
        return kinds == {"type"} or left == right

    def _bind_or_check(self, cel_type: Type, parameter: Type) -> bool | None:
        """Return whether a type can replace a parameter, or None if the type contains the parameter, which is unbound.

        An unbound parameter is bound to the type. A bound parameter is bound to the more general of the type and the
        type to which it was bound. Nothing is bound if the type is the parameter itself.
        """
        if cel_type == parameter:
            return True
        bound_type = self._bound.get(parameter)
        if bound_type is None:
            if self._occurs_in(parameter, cel_type):
                return None
            self._bind_parameter(parameter, cel_type)
            return True
        if cel_type == bound_type:
            return True
        if not self._unify_pair(cel_type, bound_type):
            return False

        general_type = get_most_general_type(cel_type, bound_type)
        would_be_infinite = self._occurs_in(parameter, general_type)
        if not would_be_infinite:
            self._bind_parameter(parameter, general_type)
        return True

    def _occurs_in(self, parameter: Type, cel_type: Type) -> bool:
        """Return whether a type parameter occurs in a type. Binding it to that type would make the type infinite."""
        if not cel_type.is_open:
            return False
        if cel_type == parameter:
            return True
        if cel_type.kind == "param":
            bound = self._bound.get(cel_type)
            return bound is not None and self._occurs_in(parameter, bound)
        return any(self._occurs_in(parameter, part) for part in cel_type.parameters)


def _unwrap_wrapper(cel_type: Type) -> Type:
    """Return the wrapped type of a wrapper, or the type itself."""
    return cel_type.parameters[0] if cel_type.kind == "wrapper" else cel_type


def get_most_general_type(left: Type, right: Type) -> Type:
    """Return the less specific of two types that are assignable to each other."""
    return left if _is_as_general(left, right) else right


def _is_as_general(left: Type, right: Type) -> bool:
    """Return whether the left type is at least as general as the right one.

    Dynamic types and type parameters are more general than all others.
    """
    if is_dyn(left) or left.kind == "param":
        return True
    if is_dyn(right) or right.kind == "param" or left.kind != right.kind:
        return False
    if left.kind in ("opaque", "list", "map"):
        has_same_form = left.name == right.name and len(left.parameters) == len(right.parameters)
        return has_same_form and all(map(_is_as_general, left.parameters, right.parameters))
    return left.kind == "type" or left == right
