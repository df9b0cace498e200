"""The row of tiles at the top of an HTML report: the main figures, the best fix and the certainty of the answer."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.render.html.sections import split_camel_case
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortFix, Summary
from kschedctl.text.printable import printable

MAX_FIGURES = 4


class Tile(NamedTuple):
    """A figure or a short text with its label."""

    label: str
    text: str
    tone: str = "plain"
    detail: str = ""
    """A second line, such as the cost of a fix."""


def build_tiles(report: Report) -> list[Tile]:
    """Build the tiles of a report from its summary. Reports without figures have none."""
    summary = report.summary()
    tiles = _build_figure_tiles(summary)
    if not tiles:
        return []
    if summary.fixes:
        tiles.append(_build_fix_tile(summary.fixes[0]))
    tiles.append(_build_certainty_tile(summary))
    return tiles


def _build_figure_tiles(summary: Summary) -> list[Tile]:
    """Build a tile for each of the first figures. Figures of zero are left out if there are too many."""
    figures = summary.figures
    if summary.summarizes == "Audit":
        with_findings = sum(number > 0 for number in figures.values())
        return [
            Tile("findings, with notes", f"{sum(figures.values()):,}"),
            Tile("sections with findings", f"{with_findings} of {len(figures)}"),
        ]
    if summary.summarizes == "Explanation":
        return _build_node_tiles(summary)
    if len(figures) > MAX_FIGURES:
        figures = {name: number for name, number in figures.items() if number}
    shown = list(figures.items())[:MAX_FIGURES]
    return [Tile(" ".join(split_camel_case(name)).lower(), f"{number:,}") for name, number in shown]


def _build_node_tiles(summary: Summary) -> list[Tile]:
    """Build the tiles that say how many nodes are eligible and how many are feasible. There are none without nodes."""
    nodes = summary.figures["nodes"]
    if not nodes:
        return []
    tiles = [Tile("feasible nodes", f"{summary.figures['feasibleNodes']:,} of {nodes:,}")]
    eligible = max((cause.of_nodes for cause in summary.causes), default=0)
    if 0 < eligible < nodes:
        tiles.insert(0, Tile("eligible nodes", f"{eligible:,} of {nodes:,}"))
    return tiles


def _build_fix_tile(fix: ShortFix) -> Tile:
    """Build the tile of the best fix, with its drawbacks below it, such as the pods that take the room first."""
    drawback = f"but {fix.but}" if fix.but else ""
    return Tile("best fix", printable(fix.summary), detail=printable(drawback))


def _build_certainty_tile(summary: Summary) -> Tile:
    """Build the tile that says whether something that was not read or is not replayed could change the answer."""
    doubts = printable("; ".join(summary.doubts))
    if summary.undecided:
        return Tile("certainty", "undecided", "warning", doubts)
    if doubts:
        return Tile("certainty", "with limits", "warning", doubts)
    return Tile("certainty", "no known limits", "good")
