"""Explanations in which nodes with the same answer stand together: kinds CompactExplanation and CompactExplanations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast, get_args

import msgspec
from msgspec.structs import FieldInfo, fields

from kschedctl.commands.explain.report import Explanation, Explanations, NodeReport, Refusal
from kschedctl.reports.document import Document

T = TypeVar("T")
BY_NODE = ("filter", "first_fail", "total", "volumes", "allocations", "diagnosis")
"""Fields that have an answer for each node."""
BY_PLUGIN_AND_NODE = ("score", "normalized", "weighted", "extender_refusals", "extender_scores")
"""Fields that have an answer for each plugin or extender, and node."""


class NodesAlike(Document, Generic[T], frozen=True):
    """Nodes with the same answer, by their positions."""

    nodes: tuple[int, ...]
    answer: T


class CompactNodes(Document, frozen=True):
    """The `nodes` of an Explanation in their order, field by field."""

    order: tuple[int, ...]
    zone: tuple[NodesAlike[str], ...]
    pool: tuple[NodesAlike[str], ...]
    feasible: tuple[NodesAlike[bool], ...]
    refusals: tuple[NodesAlike[tuple[Refusal, ...]], ...]
    total: tuple[NodesAlike[int | None], ...]


def _find_compact_type(field: FieldInfo) -> object:
    """Return the type of a field of an Explanation in the compact form."""
    if field.name in BY_NODE:
        return _to_nodes_alike(get_args(field.type)[1])
    if field.name in BY_PLUGIN_AND_NODE:
        return dict[str, _to_nodes_alike(get_args(get_args(field.type)[1])[1])]  # type: ignore[misc]
    return {"nodes": CompactNodes, "feasible": tuple[int, ...]}.get(field.name, field.type)


def _to_nodes_alike(answer: object) -> object:
    """Return the type of the compact form of answers by node."""
    return tuple[NodesAlike[answer], ...]  # type: ignore[valid-type]


def _define_document(name: str, kept: list[tuple[str, object]], *more: tuple[str, object, object]) -> type[Document]:
    """Define a kind of document with these fields, and further ones with defaults."""
    made = msgspec.defstruct(name, [*kept, *more, ("kind", str, name)], bases=(Document,), frozen=True, module=__name__)
    return cast("type[Document]", made)


CompactExplanation = _define_document(
    "CompactExplanation",
    [(field.name, _find_compact_type(field)) for field in fields(Explanation) if field.name != "kind"],
    ("other_nodes", tuple[str, ...], ()),
)
EXPLANATIONS = ("explanations", tuple[CompactExplanation, ...])  # type: ignore[valid-type]
CompactExplanations = _define_document(
    "CompactExplanations",
    [EXPLANATIONS, *((f.name, f.type) for f in fields(Explanations) if f.name not in ("explanations", "kind"))],
)


def to_compact(report: Document) -> Document:
    """Convert an explanation to the compact form. Other documents, which have no answers about nodes, stay as they
    are.
    """
    if isinstance(report, Explanation):
        return _to_compact_explanation(report)
    if isinstance(report, Explanations):
        explanations = tuple(map(_to_compact_explanation, report.explanations))
        return CompactExplanations(**_copy_fields(report, "explanations"), explanations=explanations)
    return report


def _copy_fields(report: Document, *others: str) -> dict[str, object]:
    """Return the fields that stay as they are, without those named."""
    return {name: getattr(report, name) for name in report.__struct_fields__ if name not in (*others, "kind")}


def _to_compact_explanation(report: Explanation) -> Document:
    """Convert one explanation."""
    at = {name: i for i, name in enumerate(dict.fromkeys((*report.node_order, *_iter_node_names(report))))}
    by_node = {name: _group_equal_answers(at, getattr(report, name)) for name in BY_NODE}
    of_each = {
        name: {key: _group_equal_answers(at, answers) for key, answers in getattr(report, name).items()}
        for name in BY_PLUGIN_AND_NODE
    }
    return CompactExplanation(
        **_copy_fields(report, *by_node, *of_each, "nodes", "feasible"),
        **by_node,
        **of_each,
        nodes=_to_compact_nodes(at, report.nodes),
        feasible=tuple(at[name] for name in report.feasible),
        other_nodes=tuple(at)[len(report.node_order) :],
    )


def _iter_node_names(report: Explanation) -> Iterator[str]:
    """Yield the nodes that have answers, which may differ from those that were searched."""
    yield from (node.name for node in report.nodes)
    yield from report.feasible
    for name in BY_NODE:
        yield from getattr(report, name)
    for name in BY_PLUGIN_AND_NODE:
        for answers in getattr(report, name).values():
            yield from answers


def _to_compact_nodes(at: Mapping[str, int], nodes: Iterable[NodeReport]) -> CompactNodes:
    """Convert the reports on nodes."""
    nodes = tuple(nodes)

    def column(name: str) -> tuple[NodesAlike[Any], ...]:
        return _group_equal_answers(at, {node.name: getattr(node, name) for node in nodes})

    order = tuple(at[node.name] for node in nodes)
    return CompactNodes(order, *map(column, ("zone", "pool", "feasible", "refusals", "total")))


def _group_equal_answers(at: Mapping[str, int], answers: Mapping[str, Any]) -> tuple[NodesAlike[Any], ...]:
    """Return each distinct answer with the positions of its nodes, in the order in which answers first occur."""
    nodes: dict[bytes, list[int]] = {}
    first: dict[bytes, object] = {}
    for name, answer in answers.items():
        encoded = msgspec.json.encode(answer)
        nodes.setdefault(encoded, []).append(at[name])
        first.setdefault(encoded, answer)
    return tuple(NodesAlike(tuple(nodes[encoded]), answer) for encoded, answer in first.items())
