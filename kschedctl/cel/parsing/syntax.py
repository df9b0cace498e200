"""The parts of a parsed expression; ``at`` is the offset of the token that cel-go reports.

``height`` is how deep cel-go's parser recurses for a part, which it limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kschedctl.cel.values import Value

ACCUMULATOR = "@result"
UNUSED = "#unused"


@dataclass(frozen=True, slots=True, eq=False)
class SyntaxNode:
    at: int
    height: int


@dataclass(frozen=True, slots=True, eq=False)
class Literal(SyntaxNode):
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Ident(SyntaxNode):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(SyntaxNode):
    """``operand.field``, or whether it is there (``has()``)."""

    operand: SyntaxNode
    field: str
    tests: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call(SyntaxNode):
    """``||`` and ``&&`` have all their terms as arguments."""

    function: str
    target: SyntaxNode | None
    args: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListOf(SyntaxNode):
    elements: tuple[SyntaxNode, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapOf(SyntaxNode):
    entries: tuple[tuple[SyntaxNode, SyntaxNode, bool], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Message(SyntaxNode):
    name: str
    fields: tuple[tuple[str, SyntaxNode, bool, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fold(SyntaxNode):
    """A comprehension: for each of the range while the condition holds, the accumulator becomes the step."""

    range: SyntaxNode
    names: tuple[str, ...]
    accumulator: str
    initial: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    result: SyntaxNode


def children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """The parts of a part, in source order."""
    return _CHILDREN[type(node)](node)


_CHILDREN: Mapping[type[SyntaxNode], Callable[..., tuple[SyntaxNode, ...]]] = {
    Literal: lambda node: (),
    Ident: lambda node: (),
    Select: lambda node: (node.operand,),
    Call: lambda node: (*((node.target,) if node.target else ()), *node.args),
    ListOf: lambda node: node.elements,
    MapOf: lambda node: tuple(part for key, value, _ in node.entries for part in (key, value)),
    Message: lambda node: tuple(value for _, value, _, _ in node.fields),
    Fold: lambda node: (node.range, node.initial, node.condition, node.step, node.result),
}
