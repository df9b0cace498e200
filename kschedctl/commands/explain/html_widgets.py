"""What a report in the browser has besides its page: a matrix of nodes and plugins for each pod, a map of the nodes."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.commands.explain.html_node_map import node_map
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


def explanation_widgets(report: Explanation) -> list[HtmlSection]:
    """The map and the matrix have every node that the scheduler would look at."""
    if not any(node.feasible or node.refusals for node in report.nodes):
        return []
    return [
        HtmlSection("Nodes", [("map", node_map(report))]),
        HtmlSection("Nodes and plugins", [("matrix", matrix(report).grid())]),
    ]


def explanations_widgets(report: Explanations) -> list[HtmlSection]:
    """A matrix for each pod."""
    return matrices_section(((explanation.pod,), explanation) for explanation in report.explanations)


def pending_widgets(report: PendingPods) -> list[HtmlSection]:
    """A matrix for pods alike, as far as they were explained in full."""
    return matrices_of_some(report.explained, sum(len(group.pods) for group in report.groups))


def matrices_of_some(explained: Sequence[ExplainedPods], pods: int, **titles: str) -> list[HtmlSection]:
    left_out = pods - sum(len(group.pods) for group in explained)
    return matrices_section(((group.pods, group.explanation) for group in explained), left_out, **titles)


FITS = "fits"
GROUP, NODE, ZONE, TOTAL = 0, 1, 2, 4
"""Columns of every matrix; plugins come after these."""
MOST = 6_000_000
"""Bytes that all packed matrices of a file may take together."""

Tonal = tuple[str, str]
"""A text and its tone."""


@dataclass(frozen=True)
class Matrix:
    """``columns`` and the ``cells`` of each, one for every node that the scheduler would look at."""

    columns: tuple[GridColumn, ...]
    cells: tuple[Sequence[Tonal], ...]

    def grid(self) -> Grid:
        made = {cell: _words(cell) for column in self.cells for cell in set(column)}
        rows = tuple(tuple((made[cell],) for cell in row) for row in zip(*self.cells, strict=True))
        return Grid(self.columns, rows, grouped=GROUP, bars=(TOTAL,))


@dataclass(frozen=True)
class PackedMatrix:
    """``pods``: those that it holds for, in words; ``frame``: a table without rows."""

    pods: str
    verdict: Words
    headline: str
    frame: Grid
    packed: str


@dataclass(frozen=True)
class PackedMatrices:
    """``nodes``: packed [name, zone] of each. ``note``: of how many pods there is none here, empty for none."""

    nodes: str
    matrices: tuple[PackedMatrix, ...]
    note: str = ""


def matrix(report: Explanation) -> Matrix:
    """A plugin's cell: what it adds to the total of a node that fits, or that it refuses the node."""
    nodes = [node for node in report.nodes if node.feasible or node.refusals]
    refused: dict[str, set[str]] = {}
    for node in nodes:
        for refusal in node.refusals:
            refused.setdefault(refusal.plugin, set()).add(node.name)
    scorers = {**report.weighted, **report.extender_scores}
    plugins = tuple(dict.fromkeys(filter(None, (*refused, *scorers))))
    columns = (
        ("pool and answer", False, False), ("node", False, True), ("zone", False, True), ("why", False, False),
        ("total", True, False), *((printable(plugin), True, False) for plugin in plugins),
    )  # fmt: skip
    best = set(report.best)
    cells = (
        [(f"{node.pool or 'no pool'}: {_answer(node)}", "plain") for node in nodes],
        [(node.name, _tone(node)) for node in nodes],
        [(node.zone, "plain") for node in nodes],
        [("; ".join(refusal.fact or refusal.reason for refusal in node.refusals), "plain") for node in nodes],
        [(_total(node, node.name in best), _tone(node)) for node in nodes],
        *(_of_plugin(nodes, refused.get(plugin, set()), scorers.get(plugin, {})) for plugin in plugins),
    )
    return Matrix(columns, cells)


def _answer(node: NodeReport) -> str:
    return node.refusals[0].reason if node.refusals else FITS


def _tone(node: NodeReport) -> str:
    return "good" if node.feasible else "plain"


def _total(node: NodeReport, best: bool) -> str:
    return "" if node.total is None else f"{'★ ' if best else ''}{node.total:,}"


def _of_plugin(nodes: Iterable[NodeReport], refused: set[str], scores: dict[str, int]) -> list[Tonal]:
    names = (node.name for node in nodes)
    return [
        ("refuses", "bad") if name in refused else (f"{scores[name]:,}" if name in scores else "", "plain")
        for name in names
    ]


def matrices_section(
    explained: Iterable[tuple[Sequence[str], Explanation]],
    unexplained: int = 0,
    title: str = "Nodes and plugins, for each pod",
    elsewhere: str = "kschedctl explain POD -o html has them",
) -> list[HtmlSection]:
    """The matrices of several pods, those that are the same once; none where no node was looked at.

    ``explained``: pods alike and what is said of them; ``unexplained``: how many pods more there are, and
    ``elsewhere`` what tells of them.
    """
    alike: dict[tuple[str, str], tuple[list[str], Explanation, Grid]] = {}
    nodes: dict[Tonal, int] = {}
    size, left_out = 0, unexplained
    for pods, report in explained:
        grid = matrix(report)
        if not grid.cells[NODE]:
            continue
        packed = _packed(_indexed(grid, nodes))
        same = packed, report.headline
        if same not in alike and size + len(packed) > MOST:
            left_out += len(pods)
            continue
        size += 0 if same in alike else len(packed)
        alike.setdefault(same, ([], report, Grid(grid.columns, ())))[0].extend(pods)
    if not alike:
        return []
    made = tuple(_shown(pods, report, frame, packed) for (packed, _), (pods, report, frame) in alike.items())
    content = PackedMatrices(_packed([list(node) for node in nodes]), made, _note(left_out, elsewhere))
    return [HtmlSection(title, [("matrices", content)])]


def _note(left_out: int, elsewhere: str) -> str:
    if not left_out:
        return ""
    more = count(left_out, "more pod")
    return f"Left out to keep this file small: the nodes of {more}. {elsewhere}".rstrip()


def _shown(pods: Sequence[str], report: Explanation, frame: Grid, packed: str) -> PackedMatrix:
    more = f" and {len(pods) - 1:,} more alike" if len(pods) > 1 else ""
    verdict = build_words(mark_verdict(report.verdict))
    return PackedMatrix(printable(pods[0]) + more, verdict, truncate(printable(report.headline)), frame, packed)


def _indexed(grid: Matrix, nodes: dict[Tonal, int]) -> JsonObject:
    """The matrix as the script reads it; nodes that are new are added to ``nodes``, (name, zone) -> place."""
    places = zip(grid.cells[NODE], grid.cells[ZONE], strict=True)
    at = [
        nodes.setdefault((truncate(printable(name)), truncate(printable(zone))), len(nodes))
        for (name, _), (zone, _) in places
    ]
    cells = [_distinct(column) for i, column in enumerate(grid.cells) if i not in (NODE, ZONE)]
    return {
        "columns": grid.columns,
        "at": at,
        "cells": cells,
        "grouped": GROUP,
        "bars": [TOTAL],
        "shown": ROWS_WITHOUT_SCRIPT,
    }


def _distinct(cells: Sequence[Tonal]) -> list[Json]:
    """[distinct cells, which of them each row has]."""
    place: dict[Tonal, int] = {}
    of = [place.setdefault(cell, len(place)) for cell in cells]
    return [[_words(cell).to_script_data() for cell in place], of]


def _packed(data: object) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode("ascii")


def _words(cell: Tonal) -> Words:
    text, tone = cell
    return Words(truncate(printable(text)), tone if text else "plain")
