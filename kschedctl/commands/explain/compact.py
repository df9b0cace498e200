"""Explanations in which nodes that share an answer stand together: kinds CompactExplanation and CompactExplanations.

Where an Explanation has ``{node: answer}``, these have ``[{"nodes": positions, "answer": answer}]``: a position is that
of a name in ``node_order``, and after those in ``other_nodes``. Nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast, get_args

import msgspec
from msgspec.structs import FieldInfo, fields

from kschedctl.commands.explain.report import Explanation, Explanations, NodeReport, Refusal
from kschedctl.reports.document import Document

T = TypeVar("T")
BY_NODE = ("filter", "first_fail", "total", "volumes", "allocations", "diagnosis")
"""Fields of an Explanation that have an answer for each node."""
OF_EACH = ("score", "normalized", "weighted", "extender_refusals", "extender_scores")
"""The fields of a node that have a mapping for each plugin or extender."""


class NodesAlike(Document, Generic[T], frozen=True):
    """Nodes, by their positions, of which the same is said."""

    nodes: tuple[int, ...]
    answer: T


class CompactNodes(Document, frozen=True):
    """The ``nodes`` of an Explanation in their order there, field by field."""

    order: tuple[int, ...]
    zone: tuple[NodesAlike[str], ...]
    pool: tuple[NodesAlike[str], ...]
    feasible: tuple[NodesAlike[bool], ...]
    refusals: tuple[NodesAlike[tuple[Refusal, ...]], ...]
    total: tuple[NodesAlike[int | None], ...]


def _type(field: FieldInfo) -> object:
    """The type of a field of an Explanation in the compact form."""
    if field.name in BY_NODE:
        return _alike(get_args(field.type)[1])
    if field.name in OF_EACH:
        return dict[str, _alike(get_args(get_args(field.type)[1])[1])]  # type: ignore[misc]
    return {"nodes": CompactNodes, "feasible": tuple[int, ...]}.get(field.name, field.type)


def _alike(answer: object) -> object:
    return tuple[NodesAlike[answer], ...]  # type: ignore[valid-type]


def _compacted(name: str, kept: list[tuple[str, object]], *more: tuple[str, object, object]) -> type[Document]:
    """A kind of document with these fields, and some more that have defaults."""
    made = msgspec.defstruct(name, [*kept, *more, ("kind", str, name)], bases=(Document,), frozen=True, module=__name__)
    return cast("type[Document]", made)


CompactExplanation = _compacted(
    "CompactExplanation",
    [(field.name, _type(field)) for field in fields(Explanation) if field.name != "kind"],
    ("other_nodes", tuple[str, ...], ()),
)
EXPLANATIONS = ("explanations", tuple[CompactExplanation, ...])  # type: ignore[valid-type]
CompactExplanations = _compacted(
    "CompactExplanations",
    [EXPLANATIONS, *((f.name, f.type) for f in fields(Explanations) if f.name not in ("explanations", "kind"))],
)


def compact(report: Document) -> Document:
    """The compact form; other documents say nothing of single nodes."""
    if isinstance(report, Explanation):
        return _explanation(report)
    if isinstance(report, Explanations):
        explanations = tuple(map(_explanation, report.explanations))
        return CompactExplanations(**_kept(report, "explanations"), explanations=explanations)
    return report


def _kept(report: Document, *others: str) -> dict[str, object]:
    """The fields that stay as they are."""
    return {name: getattr(report, name) for name in report.__struct_fields__ if name not in (*others, "kind")}


def _explanation(report: Explanation) -> Document:
    at = {name: i for i, name in enumerate(dict.fromkeys((*report.node_order, *_named(report))))}
    by_node = {name: _together(at, getattr(report, name)) for name in BY_NODE}
    of_each = {
        name: {key: _together(at, answers) for key, answers in getattr(report, name).items()} for name in OF_EACH
    }
    return CompactExplanation(
        **_kept(report, *by_node, *of_each, "nodes", "feasible"),
        **by_node,
        **of_each,
        nodes=_nodes(at, report.nodes),
        feasible=tuple(at[name] for name in report.feasible),
        other_nodes=tuple(at)[len(report.node_order) :],
    )


def _named(report: Explanation) -> Iterator[str]:
    """The nodes of which something is said, which may be others than those that were looked at."""
    yield from (node.name for node in report.nodes)
    yield from report.feasible
    for name in BY_NODE:
        yield from getattr(report, name)
    for name in OF_EACH:
        for answers in getattr(report, name).values():
            yield from answers


def _nodes(at: Mapping[str, int], nodes: Iterable[NodeReport]) -> CompactNodes:
    nodes = tuple(nodes)

    def column(name: str) -> tuple[NodesAlike[Any], ...]:
        return _together(at, {node.name: getattr(node, name) for node in nodes})

    order = tuple(at[node.name] for node in nodes)
    return CompactNodes(order, *map(column, ("zone", "pool", "feasible", "refusals", "total")))


def _together(at: Mapping[str, int], answers: Mapping[str, Any]) -> tuple[NodesAlike[Any], ...]:
    """The answers, each once, with the positions of its nodes, in the order in which they come first."""
    nodes: dict[bytes, list[int]] = {}
    first: dict[bytes, object] = {}
    for name, answer in answers.items():
        encoded = msgspec.json.encode(answer)
        nodes.setdefault(encoded, []).append(at[name])
        first.setdefault(encoded, answer)
    return tuple(NodesAlike(tuple(nodes[encoded]), answer) for encoded, answer in first.items())
