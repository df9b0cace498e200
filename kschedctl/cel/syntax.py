"""The nodes of a parsed expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kschedctl.cel.values import Value

ACCUMULATOR = "@result"
UNUSED = "#unused"


@dataclass(frozen=True, slots=True, eq=False)
class SyntaxNode:
    """A part of an expression."""

    offset: int
    """The offset of the token that cel-go reports."""
    height: int
    """The number of nested nodes that count for the limit on depth."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal(SyntaxNode):
    """A constant."""

    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Ident(SyntaxNode):
    """A name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(SyntaxNode):
    """``operand.field``, or a test whether the field is present, as in ``has(operand.field)``."""

    operand: SyntaxNode
    field: str
    tests_presence: bool = False
    """True if the result is whether the field is present, not its value."""


@dataclass(frozen=True, slots=True, eq=False)
class Call(SyntaxNode):
    """A call of a function, method or operator. ``||`` and ``&&`` have all their terms as arguments."""

    function: str
    target: SyntaxNode | None
    args: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListOf(SyntaxNode):
    """A list literal."""

    elements: tuple[SyntaxNode, ...]
    optional: frozenset[int] = frozenset()
    """The indices of optional elements."""


class MapEntry(NamedTuple):
    """An entry of a map literal."""

    key: SyntaxNode
    value: SyntaxNode
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class MapOf(SyntaxNode):
    """A map literal."""

    entries: tuple[MapEntry, ...] = ()


class MessageField(NamedTuple):
    """A field of a message literal."""

    name: str
    value: SyntaxNode
    optional: bool
    offset: int
    """The offset of the colon."""


@dataclass(frozen=True, slots=True, eq=False)
class Message(SyntaxNode):
    """A message literal."""

    name: str
    """The name of the message type."""
    fields: tuple[MessageField, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fold(SyntaxNode):
    """A comprehension: for each element of the range, while the condition holds, the step updates the accumulator."""

    range: SyntaxNode
    names: tuple[str, ...]
    accumulator: str
    initial: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    result: SyntaxNode


def get_children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """Return the parts of a node, in source order."""
    return _CHILDREN[type(node)](node)


_CHILDREN: Mapping[type[SyntaxNode], Callable[..., tuple[SyntaxNode, ...]]] = {
    Literal: lambda node: (),
    Ident: lambda node: (),
    Select: lambda node: (node.operand,),
    Call: lambda node: (*((node.target,) if node.target else ()), *node.args),
    ListOf: lambda node: node.elements,
    MapOf: lambda node: tuple(part for entry in node.entries for part in (entry.key, entry.value)),
    Message: lambda node: tuple(message_field.value for message_field in node.fields),
    Fold: lambda node: (node.range, node.initial, node.condition, node.step, node.result),
}
