"""Pods by zone and node as plots: before and after a simulation, what fits more, what each loss costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kschedctl.render.page import Page, section
from kschedctl.render.plots.plot import MOST_PLACES, Axis, Plot, PlotKind, Series, bars
from kschedctl.reports.capacity import ShapeCapacity
from kschedctl.reports.failures import Failures
from kschedctl.reports.simulation import PodCount
from kschedctl.reports.whatif import PodChange

PODS = "pods"


def before_and_after(zones: Sequence[PodCount], nodes: Sequence[PodCount], what: str = "") -> Page:
    """Every zone, and the nodes of which the number of pods changes most; ``what`` they are before and after."""
    changed = sorted(nodes, key=lambda each: (-abs(each.after - each.before), each.place))
    plots = (*zones_plot(zones, what), *_counts("node", changed, what))
    return section(f"Pods before and after{what}", *plots) if plots else ()


def zones_plot(zones: Sequence[PodCount], what: str = "") -> tuple[Plot, ...]:
    return _counts("zone", zones, what)


def _counts(unit: str, counts: Sequence[PodCount], what: str) -> tuple[Plot, ...]:
    amounts = {each.place: {"before": each.before, "after": each.after} for each in counts[:MOST_PLACES]}
    return bars(f"Pods by {unit}, before and after{what}", (unit, PODS), amounts, len(counts))


def moves_plot(changes: Sequence[PodChange]) -> tuple[Plot, ...]:
    """The nodes that most pods leave or come to."""
    left = Counter(change.before for change in changes if change.before)
    come = Counter(change.after for change in changes if change.after)
    nodes = sorted({*left, *come}, key=lambda node: (-left[node] - come[node], node))
    amounts = {node: {"leave": left[node], "come": come[node]} for node in nodes[:MOST_PLACES]}
    return bars("Pods that leave nodes and come to them", ("node", PODS), amounts, len(nodes))


def room_plots(shape: ShapeCapacity) -> Iterator[Plot]:
    """How room runs out as pods of a shape come, and where they find it."""
    if len(shape.curve) > 1:
        points = tuple((float(each.pods), float(each.nodes)) for each in shape.curve)
        title = f"Nodes that take one more {shape.shape}"
        yield Plot(title, Axis("new pods"), Axis("nodes"), (Series("nodes", points),), PlotKind.STEPS)
    by_place: Iterable[tuple[str, Mapping[str, int]]] = (*shape.domains.items(), ("node", shape.nodes))
    for key, counts in by_place:
        ranked = sorted(counts, key=lambda place: (-counts[place], place))
        amounts = {place: {"new pods": counts[place]} for place in ranked[:MOST_PLACES]}
        yield from bars(f"Room for {shape.shape} by {key}", (key, "new pods"), amounts, len(ranked))


def losses_plot(report: Failures) -> tuple[Plot, ...]:
    """The worst losses; those that nothing comes of are not drawn."""
    amounts = {
        each.name: {"without a node": each.unplaced, "evicted": each.evicted, "lost for good": each.lost}
        for each in report.failures
        if each.unplaced or each.evicted or each.lost
    }
    title = f"Pods that the loss of a {report.unit} costs"
    return bars(title, (report.unit, PODS), amounts, len(amounts), stacked=True)
