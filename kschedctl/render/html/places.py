"""Pods by zone and node as bars: before and after a simulation, what fits more, what each loss costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kschedctl.render.html.bars import bars
from kschedctl.render.html.sections import HtmlSection
from kschedctl.reports.capacity import Capacity, ShapeCapacity
from kschedctl.reports.drain import Drain
from kschedctl.reports.failures import Failures
from kschedctl.reports.simulation import PodCount, SimulationReport
from kschedctl.reports.whatif import WhatIf

MOST = 15
"""Places that are drawn: those with the most to tell."""


def moved_widgets(report: SimulationReport | Drain) -> list[HtmlSection]:
    """Every zone, and the nodes of which the number of pods changes most."""
    return list(_before_and_after({"zone": report.zones, "node": report.nodes_changed}))


def whatif_widgets(report: WhatIf) -> list[HtmlSection]:
    """Every zone, and the nodes that most pods leave or come to."""
    zones = tuple(PodCount(each.domain, *each.pods) for each in report.balance)
    left = Counter(change.before for change in report.changes if change.before)
    come = Counter(change.after for change in report.changes if change.after)
    moves = sorted({*left, *come}, key=lambda node: (-left[node] - come[node], node))
    found = list(_before_and_after({"zone": zones}))
    amounts = {node: {"leave": left[node], "come": come[node]} for node in moves[:MOST]}
    return found + _chart("Pods that leave nodes and come to them", amounts, len(moves))


def capacity_widgets(report: Capacity) -> list[HtmlSection]:
    """Where the pods of each shape find room."""
    return [section for shape in report.shapes for section in _room(shape)]


def failures_widgets(report: Failures) -> list[HtmlSection]:
    """The worst losses; those that nothing comes of are not drawn."""
    amounts = {
        each.name: {"without a node": each.unplaced, "evicted": each.evicted, "lost for good": each.lost}
        for each in report.failures
        if each.unplaced or each.evicted or each.lost
    }
    worst = dict(list(amounts.items())[:MOST])
    return _chart(f"Pods that the loss of a {report.unit} costs", worst, len(amounts))


def _before_and_after(places: Mapping[str, Sequence[PodCount]]) -> Iterator[HtmlSection]:
    for unit, counts in places.items():
        largest = sorted(counts, key=lambda each: (-abs(each.after - each.before), each.place))[:MOST]
        amounts = {}
        for each in largest if unit == "node" else counts:
            amounts[f"{each.place} before"] = {"before": each.before}
            amounts[f"{each.place} after"] = {"after": each.after}
        yield from _chart(f"Pods by {unit}, before and after", amounts, 2 * len(counts))


def _room(shape: ShapeCapacity) -> Iterator[HtmlSection]:
    by_place: Iterable[tuple[str, Mapping[str, int]]] = (*shape.domains.items(), ("node", shape.nodes))
    for key, counts in by_place:
        ranked = sorted(counts, key=lambda place: (-counts[place], place))
        amounts = {place: {"new pods": counts[place]} for place in ranked[:MOST]}
        yield from _chart(f"Room for {shape.shape} by {key}", amounts, len(ranked))


def _chart(title: str, amounts: Mapping[str, Mapping[str, int]], known: int) -> list[HtmlSection]:
    """One section, none where there is nothing to draw; the title says when there is more."""
    if not any(sum(pieces.values()) for pieces in amounts.values()):
        return []
    title += f", the first {len(amounts):,} of {known:,}" if known > len(amounts) else ""
    totals = {place: sum(pieces.values()) for place, pieces in amounts.items()}
    return [HtmlSection(title, [("bars", bars(title, amounts, totals))])]
