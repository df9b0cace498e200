"""The page of a Simulation: how many fit, each workload, who stays Pending and why, who is evicted, what is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kschedctl.api.resource_names import readable
from kschedctl.render.explanation import not_replayed_lines
from kschedctl.render.page import (
    Bullets,
    Cell,
    Column,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    Table,
    Tone,
    count,
    paragraph,
    section,
    shown_first,
)
from kschedctl.reports.simulation import (
    EvictedPod,
    Headroom,
    Simulation,
    Spread,
    UnplacedPods,
    Variation,
    WorkloadPlacement,
)

ROWS_SHOWN, NAMES_SHOWN = 25, 3
SHOW_ALL = "-o wide shows all"


def simulation_page(report: Simulation, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *verdict(report),
        *not_replayed_lines(report.not_replayed),
        *_workloads(report.workloads, style),
        *unplaced_section(report.pending, style),
        *evicted_section(report.evicted, style),
        *headroom_section(report.headroom),
        *_variation(report.variation),
        *(section("Taken for granted", Bullets(report.assumed)) if report.assumed else ()),
    )


def verdict(report: Simulation) -> Iterator[Paragraph]:
    """How many pods get a node."""
    total = report.placed + report.unplaced
    if report.interrupted:
        yield paragraph(Marked("Interrupted:", Tone.WARNING), "this is what was known by then")
    all_placed = Marked("All scheduled:" if total else "Nothing to schedule", Tone.GOOD)
    word = Marked(f"{count(report.unplaced, 'pod')} not scheduled:", Tone.BAD) if report.unplaced else all_placed
    evicted = f", {count(len(report.evicted), 'pod')} evicted" if report.evicted else ""
    yield paragraph(word, f"{report.placed:,} of {count(total, 'pod')} get a node{evicted}" if total else "")


def _workloads(workloads: Sequence[WorkloadPlacement], style: Style) -> Page:
    if not workloads:
        return ()
    shown, note = shown_first(workloads, None if style.wide else ROWS_SHOWN, SHOW_ALL)
    columns = (
        Column("workload", keep=True),
        Column("running", right=True),
        Column("pending", right=True),
        Column("removed", right=True),
        Column("nodes", right=True),
        Column("where"),
        Column("rollout"),
    )
    rows = tuple(_workload(workload, style) for workload in shown)
    return section("Workloads", Table(columns, rows, note).without_empty_columns())


def _workload(workload: WorkloadPlacement, style: Style) -> tuple[Cell, ...]:
    pending = Marked(f"{workload.pending:,}", Tone.BAD) if workload.pending else ""
    where = "; ".join(f"{key.rpartition('/')[2]} {_domains(values)}" for key, values in workload.domains.items())
    if style.wide:
        where = "; ".join(filter(None, (where, _domains(workload.nodes))))
    running = f"{workload.running:,}/{workload.desired:,}"
    removed = f"{workload.removed:,}" if workload.removed else ""
    return (workload.workload, running, pending, removed, f"{len(workload.nodes):,}", where, workload.rollout)


def _domains(values: Mapping[str, int]) -> str:
    return ", ".join(f"{value}: {number:,}" for value, number in values.items())


def unplaced_section(groups: Sequence[UnplacedPods], style: Style) -> Page:
    """The pods without a node, with kube-scheduler's reasons."""
    if not groups:
        return ()
    shown, note = shown_first(groups, None if style.wide else ROWS_SHOWN, SHOW_ALL)
    columns = (Column("pods", right=True), Column("workload", keep=True), Column("verdict"), Column("why"))
    return section("Not scheduled", Table(columns, tuple(_unplaced(group, style) for group in shown), note))


def _unplaced(group: UnplacedPods, style: Style) -> tuple[Cell | Stack, ...]:
    pods = Marked(names(group.pods, len(group.pods) if style.wide else NAMES_SHOWN), Tone.FAINT)
    return (f"{len(group.pods):,}", group.workload, Marked(group.verdict, Tone.BAD), Stack((group.message, pods)))


def names(found: Sequence[str], limit: int = NAMES_SHOWN) -> str:
    """``a, b, c and 7 more``."""
    more = f" and {len(found) - limit:,} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more


def evicted_section(evicted: Sequence[EvictedPod], style: Style) -> Page:
    """The victims of preemption."""
    if not evicted:
        return ()
    shown, note = shown_first(evicted, None if style.wide else ROWS_SHOWN, SHOW_ALL)
    rows = tuple((e.pod, e.node, f"{e.priority}", e.by, ", ".join(e.budgets)) for e in shown)
    columns = (
        Column("evicted pod", keep=True),
        Column("node", keep=True),
        Column("priority", right=True),
        Column("for", keep=True),
        Column("disruption budgets"),
    )
    return section("Evicted by preemption", Table(columns, rows, note).without_empty_columns())


def headroom_section(resources: Iterable[Headroom]) -> Page:
    """What is requested before and after, and the most that one node has left."""
    rows = tuple(_resource(found) for found in resources if found.requested_before or found.requested_after)
    if not rows:
        return ()
    columns = [Column("resource", keep=True), Column("allocatable", right=True)]
    columns += [Column(name, right=True) for name in ("before", "after", "most free on a node")]
    return section("Requested", Table(tuple(columns), rows))


def _resource(found: Headroom) -> tuple[Cell, ...]:
    amounts = (found.allocatable, found.requested_before, found.requested_after, found.largest_free_after)
    total, before, after, free = (_rounded(found.resource, amount) for amount in amounts)
    parts = (f"{100 * amount / found.allocatable:.1f} %" for amount in amounts[1:3])
    return (found.resource, total, *(f"{a} ({p})" for a, p in zip((before, after), parts, strict=True)), free)


def _rounded(name: str, amount: int) -> str:
    """Large amounts to three digits: they are sums of many."""
    if name == "cpu":
        return readable(name, amount if amount < 10_000 else amount // 1000 * 1000)
    shifts = ((50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"))
    for shift, unit in shifts if readable(name, 1 << 40).endswith("Ti") else ():
        if amount >= 10 << shift:
            return f"{amount >> shift:,}{unit}"
    return readable(name, amount)


def _variation(variation: Variation | None) -> Page:
    if variation is None:
        return ()
    totals = [("placed", variation.placed), ("not scheduled", variation.pending), ("evicted", variation.evicted)]
    rows: list[tuple[Cell, ...]] = [(what, _spread(found)) for what, found in totals]
    rows += [(f"{w.workload}: running", _spread(w.running)) for w in variation.workloads]
    rows += [
        (f"{w.workload}: {value}", _spread(found))
        for w in variation.workloads
        for values in w.domains.values()
        for value, found in values.items()
        if found.least != found.most
    ]
    title = f"{count(variation.runs, 'run')}, {count(variation.outcomes, 'different outcome')}"
    return section(title, Table((Column("pods", keep=True), Column("over the runs", right=True)), tuple(rows)))


def _spread(found: Spread) -> str:
    return f"{found.least:,}" if found.least == found.most else f"{found.least:,} to {found.most:,}"
