"""The map of the nodes in characters: a legend whose entries open their nodes, then pools and zones."""

from __future__ import annotations

from kschedctl.commands.browse.lines import REASON, ListLine, Openable, shorten, wrap_text
from kschedctl.commands.explain.html_node_map import FITS, OTHERS, LegendEntry, NodeMap, build_node_map
from kschedctl.commands.explain.report import Explanation

FIT, BEST, REASONS = "+", "*", "abcdefg"
"""A node that fits, one of the best of them, and those that are refused, by reason: told apart without colours."""


def list_map_lines(report: Explanation, width: int) -> list[ListLine]:
    """Return the lines of the node map, laid out as in an HTML report."""
    shown = build_node_map(report)
    if not shown.places:
        return [ListLine("no node was looked at: see 1 Why", "dim")]
    marks = _choose_marks(shown)
    lines = [
        line for entry, mark in zip(shown.legend, marks, strict=True) for line in _list_legend_entry(entry, mark, width)
    ]
    best = [ListLine(f"{BEST} kube-scheduler would choose", "dim")] if shown.best else []
    return [*lines, *best, ListLine(""), *_list_places(shown, marks, width)]


def _choose_marks(shown: NodeMap) -> list[str]:
    """Return the character of each legend entry."""
    reasons = iter(REASONS)
    return [FIT if entry.text == FITS else next(reasons) for entry in shown.legend]


def _list_legend_entry(entry: LegendEntry, mark: str, width: int) -> list[ListLine]:
    """Return the lines of a legend entry, which open its nodes unless it combines several reasons."""
    subject = None if entry.text == OTHERS else Openable(REASON, entry.text)
    return [ListLine(line, "", subject) for line in wrap_text(f"{mark} {entry.nodes:,} {entry.text}", width, "  ", 2)]


def _list_places(shown: NodeMap, marks: list[str], width: int) -> list[ListLine]:
    """Return the pools and zones with a character per node, beside the title if there is space, else below."""
    best, lines = set(shown.best), list[ListLine]()
    rows = [
        (f"{title} {len(nodes):,}", "".join(BEST if name in best else marks[entry] for name, entry in nodes))
        for title, nodes in shown.places
    ]
    side = max(len(title) for title, _ in rows)
    if all(side + 1 + len(cells) <= width for _, cells in rows):
        return [ListLine(f"{title:<{side}} {cells}") for title, cells in rows]
    for title, cells in rows:
        lines.append(ListLine(shorten(title, width), "bold"))
        lines += [ListLine(cells[start : start + width]) for start in range(0, len(cells), width)]
    return lines
