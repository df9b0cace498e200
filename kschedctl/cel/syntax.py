"""The parts of a parsed expression; ``at`` is the offset of the token that cel-go reports.

``height`` is how deep cel-go's parser recurses for a part, which it limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ACCUMULATOR = "@result"
UNUSED = "#unused"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    at: int
    height: int


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Node):
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """``operand.field``, or whether it is there (``has()``)."""

    operand: Node
    field: str
    tests: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """``||`` and ``&&`` have all their terms as arguments."""

    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListOf(Node):
    elements: tuple[Node, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapOf(Node):
    entries: tuple[tuple[Node, Node, bool], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Message(Node):
    name: str
    fields: tuple[tuple[str, Node, bool, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fold(Node):
    """A comprehension: for each of the range while the condition holds, the accumulator becomes the step."""

    range: Node
    names: tuple[str, ...]
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node


def children(node: Node) -> tuple[Node, ...]:
    """The parts of a part, in source order."""
    parts: Callable[[Any], tuple[Node, ...]] = _CHILDREN[type(node)]
    return parts(node)


_CHILDREN: Mapping[type[Node], Callable[..., tuple[Node, ...]]] = {
    Literal: lambda node: (),
    Ident: lambda node: (),
    Select: lambda node: (node.operand,),
    Call: lambda node: (*((node.target,) if node.target else ()), *node.args),
    ListOf: lambda node: node.elements,
    MapOf: lambda node: tuple(part for key, value, _ in node.entries for part in (key, value)),
    Message: lambda node: tuple(value for _, value, _, _ in node.fields),
    Fold: lambda node: (node.range, node.initial, node.condition, node.step, node.result),
}
