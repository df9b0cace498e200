"""A map of the nodes in HTML reports: one cell each, by pool and zone, colored by what rejects the node."""

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
    """A map of the nodes, as the page's script draws it."""

    legend: tuple[LegendEntry, ...]
    places: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """Pool and zone, with the name and the legend entry of each node there."""
    best: tuple[str, ...]

    def data(self) -> dict[str, object]:
        """Return the map as plain data for the script."""
        return {"legend": self.legend, "places": self.places, "best": self.best}


def build_node_map(report: Explanation) -> NodeMap:
    """Build the map of the nodes that the scheduler would examine."""
    nodes = [node for node in report.nodes if node.feasible or node.refusals]
    legend = _build_legend(Counter(map(_find_answer, nodes)))
    entry = {key.text: i for i, key in enumerate(legend)}
    places: dict[str, list[tuple[str, int]]] = {}
    for node in sorted(nodes, key=lambda node: (node.pool == "", node.pool, node.zone)):
        cell = (truncate(printable(node.name)), entry.get(_find_answer(node), len(legend) - 1))
        places.setdefault(_format_place(node), []).append(cell)
    sorted_cells = ((name, tuple(sorted(cells, key=lambda cell: cell[1]))) for name, cells in places.items())
    return NodeMap(legend, tuple(sorted_cells), tuple(truncate(printable(name)) for name in report.best))


def _find_answer(node: NodeReport) -> str:
    """Return the reported reason against a node, or that it fits."""
    return truncate(printable(node.refusals[0].reason)) if node.refusals else FITS


def _format_place(node: NodeReport) -> str:
    """Return the pool and zone of a node."""
    return printable(" · ".join(part for part in (node.pool or "no pool", node.zone) if part))


def _build_legend(answers: Counter[str]) -> tuple[LegendEntry, ...]:
    """Build the legend: feasible nodes first, then the reasons by number of nodes."""
    reasons = [(text, nodes) for text, nodes in answers.most_common() if text != FITS]
    fits = [LegendEntry(FITS, answers[FITS], "fits")] if answers[FITS] else []
    own = reasons if len(reasons) <= COLOURS else reasons[: COLOURS - 1]
    keys = [LegendEntry(text, nodes, f"m{i}") for i, (text, nodes) in enumerate(own)]
    rest = sum(nodes for _, nodes in reasons[len(own) :])
    return (*fits, *keys, *([LegendEntry(OTHERS, rest, f"m{COLOURS - 1}")] if rest else []))
