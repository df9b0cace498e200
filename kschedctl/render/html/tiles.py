"""The row of tiles at the top of an HTML report: the main figures, the best fix and the certainty of the answer."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.render.html.sections import split_camel_case
from kschedctl.reports.report import PlainReport
from kschedctl.reports.summary import ShortFix, Summary
from kschedctl.text.printable import printable

MAX_FIGURES = 4
LABELS = {
    "tried": "nodes tried",
    "withConsequences": "disruptive failures",
    "placed": "pods that get a node",
    "unplaced": "pods without a node",
    "evicted": "pods evicted",
    "displaced": "pods displaced",
    "moved": "pods that move",
    "lost": "pods lost",
    "moves": "pods to move",
    "missing": "pods without room",
    "again": "pods evicted again",
    "unsafe": "evictions left out",
    "waiting": "waiting",
    "cleared": "pods that get a node",
    "elsewhere": "pods of other schedulers",
    "wouldGetQuota": "would get quota now",
    "inactiveQueues": "inactive queues",
    "pending": "pending pods",
    "waitingElsewhere": "objects that wait elsewhere",
    "neverScheduled": "pods that no new node helps",
    "pendingBefore": "pending before",
    "pendingAfter": "pending after",
    "changes": "pods affected",
    "removable": "nodes that could be removed",
    "staying": "nodes that must stay",
}
"""Name of a figure -> its label, if that is not the name itself."""


class Tile(NamedTuple):
    """A figure or a short text with its label."""

    label: str
    text: str
    tone: str = "plain"
    detail: str = ""
    """A second line, such as the cost of a fix."""


def build_tiles(report: PlainReport) -> list[Tile]:
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
    if summary.summarizes == "Capacity":
        return [Tile(f"more of {shape} fit", f"{number:,}") for shape, number in shown]
    return [Tile(_get_label(summary, name), f"{number:,}") for name, number in shown]


def _get_label(summary: Summary, figure: str) -> str:
    """Return the label of a figure, which for an unknown figure are the words of its name."""
    if (summary.summarizes, figure) == ("Failures", "tried"):
        return "failures simulated"
    return LABELS.get(figure) or " ".join(split_camel_case(figure)).lower()


def _build_node_tiles(summary: Summary) -> list[Tile]:
    """Build tiles with the numbers of eligible and feasible nodes. Return none if the report has no nodes."""
    nodes = summary.figures["nodes"]
    if not nodes:
        return []
    tiles = [Tile("feasible nodes", f"{summary.figures['feasibleNodes']:,} of {nodes:,}")]
    eligible = max((cause.of_nodes for cause in summary.causes), default=0)
    if 0 < eligible < nodes:
        tiles.insert(0, Tile("eligible nodes", f"{eligible:,} of {nodes:,}"))
    return tiles


def _build_fix_tile(fix: ShortFix) -> Tile:
    """Build the tile of the best fix. Its drawbacks are shown below it, such as other pods that take the room first."""
    drawback = f"but {fix.but}" if fix.but else ""
    return Tile("not enough" if fix.rival_count else "best fix", printable(fix.summary), detail=printable(drawback))


def _build_certainty_tile(summary: Summary) -> Tile:
    """Build the tile that says if the answer could change because of something not read or not replayed."""
    doubts = printable("; ".join(summary.doubts))
    if summary.undecided:
        return Tile("certainty", "undecided", "warning", doubts)
    if doubts:
        return Tile("certainty", "with caveats", "warning", doubts)
    return Tile("certainty", "no known caveats", "good")
