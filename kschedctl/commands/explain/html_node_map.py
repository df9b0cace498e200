"""The node map of HTML reports: one cell per node, grouped by pool and zone, colored by the reason for rejection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from kschedctl.commands.explain.report import Explanation, NodeReport
from kschedctl.render.html.sections import truncate
from kschedctl.text.printable import printable

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
    """Build the node map of an explanation."""
    nodes = [node for node in report.nodes if node.feasible or node.refusals]
    legend = _build_legend(Counter(map(_get_map_label, nodes)))
    entry = {key.text: i for i, key in enumerate(legend)}
    places: dict[str, list[tuple[str, int]]] = {}
    for node in sorted(nodes, key=lambda node: (node.pool == "", node.pool, node.zone)):
        cell = (truncate(printable(node.name)), entry.get(_get_map_label(node), len(legend) - 1))
        places.setdefault(_format_place(node), []).append(cell)
    sorted_cells = ((name, tuple(sorted(cells, key=lambda cell: cell[1]))) for name, cells in places.items())
    return NodeMap(legend, tuple(sorted_cells), tuple(truncate(printable(name)) for name in report.best))


def _get_map_label(node: NodeReport) -> str:
    """Return the node's legend text: the main reason against it, or that the pod fits."""
    return truncate(printable(node.refusals[0].reason)) if node.refusals else FITS


def _format_place(node: NodeReport) -> str:
    """Format a node's pool and zone."""
    return printable(" · ".join(part for part in (node.pool or "no pool", node.zone) if part))


def _build_legend(answers: Counter[str]) -> tuple[LegendEntry, ...]:
    """Build the legend: feasible nodes first, then the most frequent reasons."""
    reasons = [(text, nodes) for text, nodes in answers.most_common() if text != FITS]
    fits = [LegendEntry(FITS, answers[FITS], "fits")] if answers[FITS] else []
    colored_reasons = reasons if len(reasons) <= COLOURS else reasons[: COLOURS - 1]
    keys = [LegendEntry(text, nodes, f"m{i}") for i, (text, nodes) in enumerate(colored_reasons)]
    others_count = sum(nodes for _, nodes in reasons[len(colored_reasons) :])
    return (*fits, *keys, *([LegendEntry(OTHERS, others_count, f"m{COLOURS - 1}")] if others_count else []))
