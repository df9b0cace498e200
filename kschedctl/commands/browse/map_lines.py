"""The node map in characters: a legend whose entries open their nodes, then pools and zones."""

from __future__ import annotations

from kschedctl.commands.browse.lines import REASON, ListLine, Openable, shorten, wrap_text
from kschedctl.commands.explain.html_node_map import FITS, OTHERS, LegendEntry, NodeMap, build_node_map
from kschedctl.commands.explain.report import Explanation

FIT, BEST, REASONS = "+", "*", "abcdefg"
"""A node that fits, one of the best of them, and those that are refused, by reason: told apart without colours."""


def list_map_lines(report: Explanation, width: int) -> list[ListLine]:
    """Lay out the node map as lines."""
    node_map = build_node_map(report)
    if not node_map.places:
        return [ListLine("no node was looked at: see 1 Why", "dim")]
    marks = _assign_marks(node_map)
    lines = [
        line
        for entry, mark in zip(node_map.legend, marks, strict=True)
        for line in _list_legend_entry(entry, mark, width)
    ]
    best = [ListLine(f"{BEST} kube-scheduler would choose", "dim")] if node_map.best else []
    return [*lines, *best, ListLine(""), *_list_places(node_map, marks, width)]


def _assign_marks(node_map: NodeMap) -> list[str]:
    """Assign a character to each legend entry."""
    reasons = iter(REASONS)
    return [FIT if entry.text == FITS else next(reasons) for entry in node_map.legend]


def _list_legend_entry(entry: LegendEntry, mark: str, width: int) -> list[ListLine]:
    """Lay out a legend entry. It opens the list of its nodes, unless it combines several reasons."""
    subject = None if entry.text == OTHERS else Openable(REASON, entry.text)
    return [ListLine(line, "", subject) for line in wrap_text(f"{mark} {entry.nodes:,} {entry.text}", width, "  ", 2)]


def _list_places(node_map: NodeMap, marks: list[str], width: int) -> list[ListLine]:
    """Lay out the pools and zones with one character per node, beside the title if there is room."""
    best, lines = set(node_map.best), list[ListLine]()
    rows = [
        (f"{title} {len(nodes):,}", "".join(BEST if name in best else marks[entry] for name, entry in nodes))
        for title, nodes in node_map.places
    ]
    title_width = max(len(title) for title, _ in rows)
    if all(title_width + 1 + len(cells) <= width for _, cells in rows):
        return [ListLine(f"{title:<{title_width}} {cells}") for title, cells in rows]
    for title, cells in rows:
        lines.append(ListLine(shorten(title, width), "bold"))
        lines += [ListLine(cells[start : start + width]) for start in range(0, len(cells), width)]
    return lines
