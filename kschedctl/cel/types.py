"""Types of expressions, and when a value of one can be used as another."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kschedctl.cel.errors import CompileError

_MAX_SIZE = 2000


@dataclass(frozen=True, slots=True)
class Type:
    """``kind`` says what it is; opaque, struct and param types have a name, containers have parameters."""

    kind: str
    name: str = ""
    parameters: tuple[Type, ...] = ()
    is_open: bool = field(default=False, compare=False)
    size: int = field(default=1, compare=False)

    def __str__(self) -> str:
        """The type as cel-go shows it in messages."""
        name = self.name or _SHOWN.get(self.kind, self.kind)
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name


_SHOWN = {"error": "!error!"}


def type_of(kind: str, name: str = "", *parameters: Type) -> Type:
    """A type. Raises CompileError for one so large that no honest expression has it."""
    size = 1 + sum(parameter.size for parameter in parameters)
    if size > _MAX_SIZE:
        raise CompileError("compilation failed: the type of a part of the expression is too large")
    return Type(kind, name, parameters, kind == "param" or any(p.is_open for p in parameters), size)


DYN, ANY, ERROR, NULL, BOOL = map(type_of, ["dyn", "any", "error", "null", "bool"])
INT, UINT, DOUBLE, STRING, BYTES = map(type_of, ["int", "uint", "double", "string", "bytes"])
DURATION, TIMESTAMP, TYPE = map(type_of, ["duration", "timestamp", "type"])
SIMPLE = {t.kind: t for t in (DYN, ANY, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, DURATION, TIMESTAMP, TYPE)}
STRUCTS = frozenset(
    ["kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL", "kubernetes.NamedFormat", "kubernetes.DRADevice"]
)
"""Types that are objects; other names with a dot are opaque types."""

_PART = re.compile(r"([A-Za-z_.0-9]+)")


def list_of(element: Type) -> Type:
    """``list(element)``"""
    return type_of("list", "", element)


def map_of(key: Type, value: Type) -> Type:
    """``map(key, value)``"""
    return type_of("map", "", key, value)


def optional_of(value: Type) -> Type:
    """``optional_type(value)``"""
    return type_of("opaque", "optional_type", value)


def parse_type(text: str) -> Type:
    """A type as it is written in signatures: ``list(A)``, ``map(string, optional(int))``; capitals are parameters.

    >>> str(parse_type("map(string, list(A))"))
    'map(string, list(A))'
    """
    parsed, rest = _parse_prefix(text.replace(" ", ""))
    assert not rest, text
    return parsed


def _parse_prefix(text: str) -> tuple[Type, str]:
    """Parse a type at the start of a text, and return it with the text after it."""
    match = _PART.match(text)
    assert match is not None, text
    name, rest = match[1], text[match.end() :]
    parameters: list[Type] = []
    while rest[:1] in ("(", ",") and not (rest[0] == "," and not parameters):
        parameter, rest = _parse_prefix(rest[1:])
        parameters.append(parameter)
        if rest[:1] == ")":
            rest = rest[1:]
            break
    return _build_named(name, tuple(parameters)), rest


def _build_named(name: str, parameters: tuple[Type, ...]) -> Type:
    """Build the type with this name, such as `list` or `T`."""
    if name in ("list", "map"):
        return type_of(name, "", *parameters)
    if name == "optional":
        return optional_of(*parameters)
    if name in SIMPLE and not parameters:
        return SIMPLE[name]
    if name in ("type", "wrapper"):
        return type_of(name, "", *parameters)
    if len(name) == 1:
        return type_of("param", name)
    return type_of("struct" if name in STRUCTS else "opaque", name)


def is_dyn(t: Type) -> bool:
    """Return whether nothing is known about a value of the type."""
    return t.kind in ("dyn", "any")


def is_dyn_or_error(t: Type) -> bool:
    """Return whether nothing is known about a value of the type, or an error hides it."""
    return t.kind in ("dyn", "any", "error")


def is_optional(t: Type) -> bool:
    """Return whether a value of the type may be missing."""
    return t.name == "optional_type"


def unwrap_optional(t: Type) -> tuple[Type, bool]:
    """Return the type of the value, and whether it may be missing."""
    return (t.parameters[0], True) if is_optional(t) else (t, False)


class Unification:
    """The type parameters that are known while an expression is checked."""

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []
        self._fresh = 0

    def new_parameter(self) -> Type:
        """Return a new type parameter."""
        self._fresh += 1
        return type_of("param", f"_var{self._fresh}")

    def unify(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        """Return whether the types on the left are assignable to those on the right, and keep what follows for
        parameters.
        """
        mark = len(self._trail)
        if self._unify_all(left, right):
            return True
        while len(self._trail) > mark:
            parameter, before = self._trail.pop()
            if before is None:
                del self._bound[parameter]
            else:
                self._bound[parameter] = before
        return False

    def resolve(self, t: Type, final: bool = False) -> Type:
        """Return a type with known parameters replaced. If ``final``, unknown ones become dyn."""
        if not t.is_open:
            return t
        if t.kind == "param":
            bound = self._bound.get(t)
            if bound is not None:
                return self.resolve(bound, final)
            return DYN if final else t
        return type_of(t.kind, t.name, *(self.resolve(parameter, final) for parameter in t.parameters))

    def instantiate(self, t: Type, fresh: dict[Type, Type]) -> Type:
        """Return a type of a signature with new parameters for its own."""
        if not t.is_open:
            return t
        if t.kind == "param":
            if t not in fresh:
                fresh[t] = self.new_parameter()
            return fresh[t]
        return type_of(t.kind, t.name, *(self.instantiate(parameter, fresh) for parameter in t.parameters))

    def _bind(self, parameter: Type, t: Type) -> None:
        self._trail.append((parameter, self._bound.get(parameter)))
        self._bound[parameter] = t

    def _unify_all(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        return len(left) == len(right) and all(map(self._unify_pair, left, right))

    def _unify_pair(self, left: Type, right: Type) -> bool:
        """Unify two types, binding type parameters. Return whether that is possible."""
        if right.kind == "param":
            valid, bound = self._bind_or_check(left, right)
            if valid or bound:
                return valid
        if left.kind == "param":
            return self._bind_or_check(right, left)[0]
        if is_dyn_or_error(left) or is_dyn_or_error(right):
            return True
        return self._is_assignable(left, right)

    def _is_assignable(self, left: Type, right: Type) -> bool:
        """Return whether two types without type parameters at the top can be assigned to each other."""
        kinds = {left.kind, right.kind}
        if "null" in kinds:
            return kinds <= {"null", "wrapper", "opaque", "struct", "duration", "timestamp"}
        if "wrapper" in kinds:
            return _unwrap(left) == _unwrap(right)
        if kinds <= {"opaque", "list", "map"}:
            same = left.kind == right.kind and left.name == right.name
            return same and self._unify_all(left.parameters, right.parameters)
        return kinds == {"type"} or left == right

    def _bind_or_check(self, t: Type, parameter: Type) -> tuple[bool, bool]:
        """Return whether a type can replace a parameter, and whether the parameter was bound already."""
        if t == parameter:
            return True, True
        bound = self._bound.get(parameter)
        if bound is not None:
            if t == bound:
                return True, True
            if self._unify_pair(t, bound):
                general = most_general(t, bound)
                if not self._occurs_in(parameter, general):
                    self._bind(parameter, general)
                return True, True
            return False, True
        if self._occurs_in(parameter, t):
            return False, False
        self._bind(parameter, t)
        return True, False

    def _occurs_in(self, parameter: Type, t: Type) -> bool:
        """Return whether a type parameter occurs in a type, which would make the type infinite."""
        if not t.is_open:
            return False
        if t == parameter:
            return True
        if t.kind == "param":
            bound = self._bound.get(t)
            return bound is not None and self._occurs_in(parameter, bound)
        return any(self._occurs_in(parameter, p) for p in t.parameters)


def _unwrap(t: Type) -> Type:
    return t.parameters[0] if t.kind == "wrapper" else t


def most_general(left: Type, right: Type) -> Type:
    """Return the less specific of two types that are assignable to each other."""
    return left if _is_as_general(left, right) else right


def _is_as_general(left: Type, right: Type) -> bool:
    """Return whether the left type is at least as general as the right one."""
    if is_dyn(left) or left.kind == "param":
        return True
    if is_dyn(right) or right.kind == "param" or left.kind != right.kind:
        return False
    if left.kind in ("opaque", "list", "map"):
        same = left.name == right.name and len(left.parameters) == len(right.parameters)
        return same and all(map(_is_as_general, left.parameters, right.parameters))
    return left.kind == "type" or left == right
