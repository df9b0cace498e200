"""A map of the nodes: a cell each, by pool and zone, coloured by what refuses it; the legend counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from kschedctl.commands.explain.report import Explanation, NodeReport
from kschedctl.render.html.sections import truncate
from kschedctl.text.printable import printable

FITS, OTHERS = "fits", "other reasons"
COLOURS = 7
"""Reasons with a colour of their own; further ones share the last."""


class LegendEntry(NamedTuple):
    """An entry of the legend: what it says, of how many nodes, and the class of its colour."""

    text: str
    nodes: int
    look: str


@dataclass(frozen=True)
class NodeMap:
    """``places``: (pool and zone, [name, entry of the legend] of each node), as the script draws them."""

    legend: tuple[LegendEntry, ...]
    places: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    best: tuple[str, ...]

    def data(self) -> dict[str, object]:
        """For the script."""
        return {"legend": self.legend, "places": self.places, "best": self.best}


def node_map(report: Explanation) -> NodeMap:
    """A map of the nodes that the scheduler would look at; none of them fits where the pod fails before that."""
    nodes = [node for node in report.nodes if node.feasible or node.refusals]
    legend = _legend(Counter(map(_answer, nodes)))
    entry = {key.text: i for i, key in enumerate(legend)}
    places: dict[str, list[tuple[str, int]]] = {}
    for node in sorted(nodes, key=lambda node: (node.pool == "", node.pool, node.zone)):
        cell = (truncate(printable(node.name)), entry.get(_answer(node), len(legend) - 1))
        places.setdefault(_place(node), []).append(cell)
    sorted_cells = ((name, tuple(sorted(cells, key=lambda cell: cell[1]))) for name, cells in places.items())
    return NodeMap(legend, tuple(sorted_cells), tuple(truncate(printable(name)) for name in report.best))


def _answer(node: NodeReport) -> str:
    return truncate(printable(node.refusals[0].reason)) if node.refusals else FITS


def _place(node: NodeReport) -> str:
    return printable(" · ".join(part for part in (node.pool or "no pool", node.zone) if part))


def _legend(answers: Counter[str]) -> tuple[LegendEntry, ...]:
    """What fits first, then the reasons, those of most nodes first."""
    reasons = [(text, nodes) for text, nodes in answers.most_common() if text != FITS]
    fits = [LegendEntry(FITS, answers[FITS], "fits")] if answers[FITS] else []
    own = reasons if len(reasons) <= COLOURS else reasons[: COLOURS - 1]
    keys = [LegendEntry(text, nodes, f"m{i}") for i, (text, nodes) in enumerate(own)]
    rest = sum(nodes for _, nodes in reasons[len(own) :])
    return (*fits, *keys, *([LegendEntry(OTHERS, rest, f"m{COLOURS - 1}")] if rest else []))
