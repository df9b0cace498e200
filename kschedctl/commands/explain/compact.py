"""The compact form of explanations, which groups nodes with equal answers (CompactExplanation, CompactExplanations)."""

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
    """Nodes that share an answer, by their indices in `node_order` and `other_nodes`."""

    nodes: tuple[int, ...]
    answer: T


class CompactNodes(Document, frozen=True):
    """The field `nodes` of an Explanation in compact form, column by column."""

    order: tuple[int, ...]
    zone: tuple[NodesAlike[str], ...]
    pool: tuple[NodesAlike[str], ...]
    feasible: tuple[NodesAlike[bool], ...]
    refusals: tuple[NodesAlike[tuple[Refusal, ...]], ...]
    total: tuple[NodesAlike[int | None], ...]


def _get_compact_type(field: FieldInfo) -> object:
    """Return the type that a field of Explanation has in the compact form."""
    # The field's type is dict[str, Answer], with node names as keys
    if field.name in BY_NODE:
        _, answer_type = get_args(field.type)
        return _build_nodes_alike_type(answer_type)
    if field.name in BY_PLUGIN_AND_NODE:
        _, by_node_type = get_args(field.type)
        _, answer_type = get_args(by_node_type)
        return dict[str, _build_nodes_alike_type(answer_type)]  # type: ignore[misc]
    return {"nodes": CompactNodes, "feasible": tuple[int, ...]}.get(field.name, field.type)


def _build_nodes_alike_type(answer_type: object) -> object:
    """Return the type of a column whose answers have the given type."""
    return tuple[NodesAlike[answer_type], ...]  # type: ignore[valid-type]


def _define_document_type(
    name: str, required: list[tuple[str, object]], *optional: tuple[str, object, object]
) -> type[Document]:
    """Define a msgspec struct for a kind of document, with the given required and optional fields.

    A required field is a pair of name and type, and an optional field a triple of name, type and default.
    """
    struct = msgspec.defstruct(
        name, [*required, *optional, ("kind", str, name)], bases=(Document,), frozen=True, module=__name__
    )
    return cast("type[Document]", struct)


CompactExplanation = _define_document_type(
    "CompactExplanation",
    [(field.name, _get_compact_type(field)) for field in fields(Explanation) if field.name != "kind"],
    ("other_nodes", tuple[str, ...], ()),
)
EXPLANATIONS = ("explanations", tuple[CompactExplanation, ...])  # type: ignore[valid-type]
CompactExplanations = _define_document_type(
    "CompactExplanations",
    [
        EXPLANATIONS,
        *((field_.name, field_.type) for field_ in fields(Explanations) if field_.name not in ("explanations", "kind")),
    ],
)


def to_compact_form(report: Document) -> Document:
    """Convert explanations to the compact form. Return other kinds of documents unchanged."""
    if isinstance(report, Explanation):
        return _to_compact_explanation(report)
    if isinstance(report, Explanations):
        explanations = tuple(map(_to_compact_explanation, report.explanations))
        return CompactExplanations(**_get_fields_except(report, "explanations"), explanations=explanations)
    return report


def _get_fields_except(report: Document, *excluded: str) -> dict[str, object]:
    """Return the document's fields by name, except its kind and the excluded fields."""
    return {name: getattr(report, name) for name in report.__struct_fields__ if name not in (*excluded, "kind")}


def _to_compact_explanation(report: Explanation) -> Document:
    """Convert one explanation to the compact form, in which numbers stand for node names.

    Nodes are numbered in the scheduler's order. Nodes that are not in this order follow, and are named in
    `other_nodes`.
    """
    distinct_names = dict.fromkeys((*report.node_order, *_iter_node_names(report)))
    index_by_name = {name: i for i, name in enumerate(distinct_names)}
    by_node = {name: _group_equal_answers(index_by_name, getattr(report, name)) for name in BY_NODE}
    by_plugin_and_node = {
        name: {key: _group_equal_answers(index_by_name, answers) for key, answers in getattr(report, name).items()}
        for name in BY_PLUGIN_AND_NODE
    }
    return CompactExplanation(
        **_get_fields_except(report, *by_node, *by_plugin_and_node, "nodes", "feasible"),
        **by_node,
        **by_plugin_and_node,
        nodes=_to_compact_nodes(index_by_name, report.nodes),
        feasible=tuple(index_by_name[name] for name in report.feasible),
        other_nodes=tuple(index_by_name)[len(report.node_order) :],
    )


def _iter_node_names(report: Explanation) -> Iterator[str]:
    """Yield the node names in every per-node field of the report. Most names are yielded several times.

    The fields of a sampled search may have nodes that are not in `node_order`.
    """
    yield from (node.name for node in report.nodes)
    yield from report.feasible
    for name in BY_NODE:
        yield from getattr(report, name)
    for name in BY_PLUGIN_AND_NODE:
        for answers in getattr(report, name).values():
            yield from answers


def _to_compact_nodes(index_by_name: Mapping[str, int], nodes: Iterable[NodeReport]) -> CompactNodes:
    """Convert node reports to columns. In each column, nodes with the same value are grouped."""
    nodes = tuple(nodes)

    def build_column(name: str) -> tuple[NodesAlike[Any], ...]:
        """Build the column of a field of NodeReport."""
        return _group_equal_answers(index_by_name, {node.name: getattr(node, name) for node in nodes})

    return CompactNodes(
        order=tuple(index_by_name[node.name] for node in nodes),
        zone=build_column("zone"),
        pool=build_column("pool"),
        feasible=build_column("feasible"),
        refusals=build_column("refusals"),
        total=build_column("total"),
    )


def _group_equal_answers(index_by_name: Mapping[str, int], answers: Mapping[str, Any]) -> tuple[NodesAlike[Any], ...]:
    """Group node indices by answer, in the order in which the answers first occur.

    Answers are compared by their JSON, because not all of them can be hashed.
    """
    indices_by_json: dict[bytes, list[int]] = {}
    answer_by_json: dict[bytes, object] = {}
    for name, answer in answers.items():
        encoded = msgspec.json.encode(answer)
        indices_by_json.setdefault(encoded, []).append(index_by_name[name])
        answer_by_json.setdefault(encoded, answer)
    return tuple(NodesAlike(tuple(indices_by_json[encoded]), answer) for encoded, answer in answer_by_json.items())
