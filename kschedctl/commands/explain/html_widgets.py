"""The interactive parts of HTML reports: a map of the nodes, and a matrix of nodes and plugins for each pod.

Matrices of several pods are packed: JSON in gzip in base64, which the page's script unpacks when somebody opens a
matrix. A packed matrix has, for each column, its distinct cells and which of them each row has. Names and zones of
nodes are stored once for all pods.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.commands.explain.pending_report import ExplainedPods, PendingPods
from kschedctl.commands.explain.report import Explanation, Explanations, NodeReport
from kschedctl.render.html.sections import (
    ROWS_WITHOUT_SCRIPT,
    Grid,
    GridColumn,
    HtmlSection,
    Words,
    build_words,
    truncate,
)
from kschedctl.render.page import count
from kschedctl.render.sections import mark_verdict
from kschedctl.text.printable import printable


def build_explanation_widgets(report: Explanation) -> list[HtmlSection]:
    """Build the node map and the matrix of an explanation, or nothing if no node was evaluated."""
    if not any(node.feasible or node.refusals for node in report.nodes):
        return []
    return [
        HtmlSection("Nodes", [("map", build_node_map(report))]),
        HtmlSection("Nodes and plugins", [("matrix", build_plugin_matrix(report).to_grid())]),
    ]


def build_explanations_widgets(report: Explanations) -> list[HtmlSection]:
    """Build a matrix for each of several explained pods."""
    return build_matrices(((explanation.pod,), explanation) for explanation in report.explanations)


def build_pending_widgets(report: PendingPods) -> list[HtmlSection]:
    """Build a matrix for each kind of pending pods that was explained node by node."""
    return build_matrices_of_explained(report.explained, sum(len(group.pods) for group in report.groups))


def build_matrices_of_explained(explained: Sequence[ExplainedPods], pods: int, **titles: str) -> list[HtmlSection]:
    """Build a matrix for each group of explained pods, and a note about the other pods.

    `pods` is the number of all pending pods. `titles` are passed on to `build_matrices`.
    """
    left_out = pods - sum(len(group.pods) for group in explained)
    return build_matrices(((group.pods, group.explanation) for group in explained), left_out, **titles)


GROUP, NODE, ZONE, TOTAL = 0, 1, 2, 4
"""The indices of some of the five first columns of every matrix; the columns of plugins follow."""
MAX_PACKED_BYTES = 6_000_000
"""The maximum size of all packed matrices of a file together."""

Tonal = tuple[str, str]
"""A text and its tone."""


@dataclass(frozen=True)
class Matrix:
    """A table of nodes and plugins for one pod."""

    columns: tuple[GridColumn, ...]
    cells: tuple[Sequence[Tonal], ...]
    """The cells of each column, one for each node."""

    def to_grid(self) -> Grid:
        """Convert the matrix to a grid, which the page shows without unpacking."""
        words_by_cell = {cell: _to_words(cell) for column in self.cells for cell in set(column)}
        rows = []
        for row in zip(*self.cells, strict=True):  # the cells are stored by column
            rows.append(tuple((words_by_cell[cell],) for cell in row))  # a cell of a grid has lines, here only one
        return Grid(self.columns, tuple(rows), grouped=GROUP, bars=(TOTAL,))


@dataclass(frozen=True)
class PackedMatrix:
    """A matrix that the page's script unpacks."""

    pods: str
    """The heading: the first pod, and how many others share the matrix."""
    verdict: Words
    headline: str
    frame: Grid
    """The table without rows."""
    packed: str


@dataclass(frozen=True)
class PackedMatrices:
    """The packed matrices of several pods."""

    nodes: str
    """The packed list of [name, zone] of each node."""
    matrices: tuple[PackedMatrix, ...]
    note: str = ""
    """A note about pods without a matrix, or an empty string."""


def build_plugin_matrix(report: Explanation) -> Matrix:
    """Build the matrix of nodes and plugins, with the pool, zone, rejections and total score of each node.

    A plugin's cell has its weighted score, or says that the plugin rejects the node. Nodes that were neither feasible
    nor rejected, because the search ended before it reached them, are left out.
    """
    nodes = [node for node in report.nodes if node.feasible or node.refusals]
    best = set(report.best)

    # The columns about the node, each with its cells
    columns: dict[GridColumn, list[Tonal]] = {
        GridColumn("pool and answer"): [
            (f"{node.pool or 'no pool'}: {_choose_main_reason(node)}", "plain") for node in nodes
        ],
        GridColumn("node", keep=True): [(node.name, _choose_node_tone(node)) for node in nodes],
        GridColumn("zone", keep=True): [(node.zone, "plain") for node in nodes],
        GridColumn("reason"): [(_join_refusals(node), "plain") for node in nodes],
        GridColumn("total", has_numbers=True): [
            (_format_total(node, is_best=node.name in best), _choose_node_tone(node)) for node in nodes
        ],
    }
    all_cells = list(columns.values())
    titles = list(columns)

    # A column for each plugin that rejects a node or scores nodes
    rejected_by_plugin: dict[str, set[str]] = {}
    for node in nodes:
        for refusal in node.refusals:
            rejected_by_plugin.setdefault(refusal.plugin, set()).add(node.name)
    scorers = {**report.weighted, **report.extender_scores}
    for plugin in dict.fromkeys((*rejected_by_plugin, *scorers)):
        if plugin:  # nodes that no plugin evaluated have a refusal without a plugin
            titles.append(GridColumn(printable(plugin), has_numbers=True))
            rejected_nodes = rejected_by_plugin.get(plugin, set())
            all_cells.append(_build_plugin_column(nodes, rejected_nodes, scorers.get(plugin, {})))
    return Matrix(tuple(titles), tuple(all_cells))


def _join_refusals(node: NodeReport) -> str:
    """Join the figures of everything that rejects the node, or the reasons without figures."""
    return "; ".join(refusal.fact or refusal.reason for refusal in node.refusals)


def _choose_main_reason(node: NodeReport) -> str:
    """Return the main reason against the node, or that the pod fits."""
    return node.refusals[0].reason if node.refusals else FITS


def _choose_node_tone(node: NodeReport) -> str:
    """Choose the tone of a node's cells."""
    return "good" if node.feasible else "plain"


def _format_total(node: NodeReport, is_best: bool) -> str:
    """Format a node's total score, with a star for the best nodes. Return "" for a rejected node."""
    if node.total is None:
        return ""
    star = "★ " if is_best else ""
    return f"{star}{node.total:,}"


def _build_plugin_column(nodes: Iterable[NodeReport], rejected_nodes: set[str], scores: dict[str, int]) -> list[Tonal]:
    """Build a plugin's column of the matrix. A cell has "rejects" for a rejected node, else the score or nothing."""
    cells = []
    for node in nodes:
        if node.name in rejected_nodes:
            cells.append(("rejects", "bad"))
        elif node.name in scores:
            cells.append((f"{scores[node.name]:,}", "plain"))
        else:
            cells.append(("", "plain"))
    return cells


class _SharedMatrix(NamedTuple):
    """A packed matrix, and the pods that share it."""

    pods: list[str]
    report: Explanation
    frame: Grid
    """The table without rows."""
    packed: str


def build_matrices(
    explained: Iterable[tuple[Sequence[str], Explanation]],
    unexplained: int = 0,
    title: str = "Nodes and plugins, for each pod",
    elsewhere: str = "kschedctl explain POD -o html has them",
) -> list[HtmlSection]:
    """Build the section with the matrices of several pods. It is empty if no node was examined.

    `explained` has groups of equal pods with their explanation. Equal matrices are stored once, and matrices beyond
    MAX_PACKED_BYTES are left out. `unexplained` is the number of further pods, and `elsewhere` is a note on where to
    find the explanations of pods without a matrix.
    """
    index_by_node: dict[Tonal, int] = {}
    shared_matrices, left_out = _share_matrices(explained, index_by_node)
    if not shared_matrices:
        return []
    content = PackedMatrices(
        _compress_as_json([list(node) for node in index_by_node]),
        tuple(map(_build_packed_matrix, shared_matrices)),
        _describe_pods_without_matrix(left_out + unexplained, elsewhere),
    )
    return [HtmlSection(title, [("matrices", content)])]


def _share_matrices(
    explained: Iterable[tuple[Sequence[str], Explanation]], index_by_node: dict[Tonal, int]
) -> tuple[list[_SharedMatrix], int]:
    """Return the distinct matrices with their pods, and the number of pods left out to stay below MAX_PACKED_BYTES.

    Explanations without examined nodes are skipped. The nodes of the matrices are added to `index_by_node`.
    """
    # Pods share a matrix only if they also share the headline above it
    shared_by_matrix_and_headline: dict[tuple[str, str], _SharedMatrix] = {}
    size = 0
    left_out = 0
    for pods, report in explained:
        matrix = build_plugin_matrix(report)
        if not matrix.cells[NODE]:
            continue
        packed = _compress_as_json(_to_script_matrix(matrix, index_by_node))
        shared = shared_by_matrix_and_headline.get((packed, report.headline))
        if shared is not None:
            shared.pods.extend(pods)
        elif size + len(packed) > MAX_PACKED_BYTES:
            left_out += len(pods)
        else:
            size += len(packed)
            shared_by_matrix_and_headline[packed, report.headline] = _SharedMatrix(
                pods=list(pods), report=report, frame=Grid(matrix.columns, rows=()), packed=packed
            )
    return list(shared_by_matrix_and_headline.values()), left_out


def _describe_pods_without_matrix(pods: int, elsewhere: str) -> str:
    """Return a note about how many pods have no matrix in this file, or an empty string if all have one.

    `elsewhere` is a note on where to find the matrices of these pods. It may be empty.
    """
    if not pods:
        return ""
    more = count(pods, "more pod")
    return f"Left out to keep this file small: the nodes of {more}. {elsewhere}".rstrip()


def _build_packed_matrix(shared: _SharedMatrix) -> PackedMatrix:
    """Build the packed matrix that several equal pods share, under the name of the first pod."""
    report = shared.report
    more = f" and {len(shared.pods) - 1:,} more like it" if len(shared.pods) > 1 else ""
    return PackedMatrix(
        printable(shared.pods[0]) + more,
        build_words(mark_verdict(report.verdict)),
        headline=truncate(printable(report.headline)),
        frame=shared.frame,
        packed=shared.packed,
    )


def _to_script_matrix(matrix: Matrix, index_by_node: dict[Tonal, int]) -> JsonObject:
    """Convert a matrix to the format of the page's script.

    Each pair of a node's name and zone becomes an index into a list that all matrices share. New nodes are added to
    `index_by_node`.
    """
    node_indices = []
    for (name, _), (zone, _) in zip(matrix.cells[NODE], matrix.cells[ZONE], strict=True):
        node = truncate(printable(name)), truncate(printable(zone))
        node_indices.append(index_by_node.setdefault(node, len(index_by_node)))
    cells = [_to_script_column(column) for i, column in enumerate(matrix.cells) if i not in (NODE, ZONE)]
    return {
        "columns": matrix.columns,
        "at": node_indices,
        "cells": cells,
        "grouped": GROUP,
        "bars": [TOTAL],
        "shown": ROWS_WITHOUT_SCRIPT,
    }


def _to_script_column(cells: Sequence[Tonal]) -> list[Json]:
    """Convert a column to [distinct cells, index of each row's cell], for the page's script."""
    index_by_cell: dict[Tonal, int] = {}
    indices = [index_by_cell.setdefault(cell, len(index_by_cell)) for cell in cells]
    return [[_to_words(cell).to_script_data() for cell in index_by_cell], indices]


def _compress_as_json(data: object) -> str:
    """Encode data as gzipped JSON in base64."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode("ascii")


def _to_words(cell: Tonal) -> Words:
    """Convert a cell to styled words, without control characters and cut if too long. An empty cell has no tone."""
    text, tone = cell
    return Words(truncate(printable(text)), tone if text else "plain")


FITS, OTHERS = "fits", "other reasons"
COLOURS = 7
"""The number of reasons with a color of their own. Further ones share the last color."""


class LegendEntry(NamedTuple):
    """An entry of the legend."""

    text: str
    nodes: int
    """The number of nodes."""
    look: str
    """The CSS class of the color."""


@dataclass(frozen=True)
class NodeMap:
    """The node map as the page's script draws it."""

    legend: tuple[LegendEntry, ...]
    places: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """Pool and zone -> the nodes there, each with the index of its legend entry."""
    best: tuple[str, ...]

    def to_script_data(self) -> dict[str, object]:
        """Return the map as JSON-compatible data for the page's script."""
        return {"legend": self.legend, "places": self.places, "best": self.best}


def build_node_map(report: Explanation) -> NodeMap:
    """Build the node map of an explanation, with nodes by pool and zone. Nodes without a pool come last.

    A node whose reason has no legend entry gets the last one, "other reasons".
    """
    nodes = [node for node in report.nodes if node.feasible or node.refusals]
    legend = _build_legend(Counter(map(_get_map_label, nodes)))
    index_by_label = {entry.text: i for i, entry in enumerate(legend)}
    nodes_by_place: dict[str, list[tuple[str, int]]] = {}
    for node in sorted(nodes, key=lambda node: (node.pool == "", node.pool, node.zone)):
        legend_index = index_by_label.get(_get_map_label(node), len(legend) - 1)
        nodes_by_place.setdefault(_format_place(node), []).append((truncate(printable(node.name)), legend_index))
    for nodes_there in nodes_by_place.values():
        nodes_there.sort(key=itemgetter(1))
    places = tuple((place, tuple(nodes_there)) for place, nodes_there in nodes_by_place.items())
    return NodeMap(legend, places, tuple(truncate(printable(name)) for name in report.best))


def _get_map_label(node: NodeReport) -> str:
    """Return the node's legend text: the main reason against it, or that the pod fits."""
    return truncate(printable(node.refusals[0].reason)) if node.refusals else FITS


def _format_place(node: NodeReport) -> str:
    """Format a node's pool and zone."""
    return printable(" · ".join(part for part in (node.pool or "no pool", node.zone) if part))


def _build_legend(answers: Counter[str]) -> tuple[LegendEntry, ...]:
    """Build the legend: feasible nodes first, then the most frequent reasons, then an entry for all other reasons.

    Each of at most COLOURS reasons has its own colour. If there are more, the last colour stands for all other reasons.
    """
    legend = []
    if answers[FITS]:
        legend.append(LegendEntry(FITS, answers[FITS], "fits"))
    reasons = [(text, nodes) for text, nodes in answers.most_common() if text != FITS]
    colored_reasons = reasons if len(reasons) <= COLOURS else reasons[: COLOURS - 1]
    legend += [LegendEntry(text, nodes, f"m{i}") for i, (text, nodes) in enumerate(colored_reasons)]
    others_count = sum(nodes for _, nodes in reasons[len(colored_reasons) :])
    if others_count:
        legend.append(LegendEntry(OTHERS, others_count, f"m{COLOURS - 1}"))
    return tuple(legend)
