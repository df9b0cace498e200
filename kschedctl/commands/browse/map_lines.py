"""The map of the nodes in characters: the legend, whose entries open their nodes, then pools and zones."""

from __future__ import annotations

from kschedctl.commands.browse.lines import REASON, ListLine, Openable, cut, wrapped
from kschedctl.commands.explain.html_node_map import FITS, OTHERS, LegendEntry, NodeMap, build_node_map
from kschedctl.commands.explain.report import Explanation

FIT, BEST, REASONS = "+", "*", "abcdefg"
"""A node that fits, one of the best of them, and those that are refused, by reason: told apart without colours."""


def map_lines(report: Explanation, width: int) -> list[ListLine]:
    """The map of the nodes, laid out as in an HTML report."""
    shown = build_node_map(report)
    if not shown.places:
        return [ListLine("no node was looked at: see 1 Why", "dim")]
    marks = _marks(shown)
    lines = [line for entry, mark in zip(shown.legend, marks, strict=True) for line in _entry(entry, mark, width)]
    best = [ListLine(f"{BEST} kube-scheduler would choose", "dim")] if shown.best else []
    return [*lines, *best, ListLine(""), *_places(shown, marks, width)]


def _marks(shown: NodeMap) -> list[str]:
    reasons = iter(REASONS)
    return [FIT if entry.text == FITS else next(reasons) for entry in shown.legend]


def _entry(entry: LegendEntry, mark: str, width: int) -> list[ListLine]:
    """An entry lists its nodes when it is opened; several reasons together do not."""
    subject = None if entry.text == OTHERS else Openable(REASON, entry.text)
    return [ListLine(line, "", subject) for line in wrapped(f"{mark} {entry.nodes:,} {entry.text}", width, "  ", 2)]


def _places(shown: NodeMap, marks: list[str], width: int) -> list[ListLine]:
    """The nodes of a place beside its name, or beneath it where they need more room."""
    best, lines = set(shown.best), list[ListLine]()
    rows = [
        (f"{title} {len(nodes):,}", "".join(BEST if name in best else marks[entry] for name, entry in nodes))
        for title, nodes in shown.places
    ]
    side = max(len(title) for title, _ in rows)
    if all(side + 1 + len(cells) <= width for _, cells in rows):
        return [ListLine(f"{title:<{side}} {cells}") for title, cells in rows]
    for title, cells in rows:
        lines.append(ListLine(cut(title, width), "bold"))
        lines += [ListLine(cells[start : start + width]) for start in range(0, len(cells), width)]
    return lines
