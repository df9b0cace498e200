"""The page of a Simulation: how many fit, each workload, who stays Pending and why, who is evicted, what is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kschedctl.api.resource_names import readable
from kschedctl.render.explanation import not_replayed_lines
from kschedctl.render.page import (
    Bullets,
    Cell,
    Column,
    Command,
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
        *(section("Notes", Bullets(report.assumed)) if report.assumed else ()),
        *(section("Next", *map(Command, report.next)) if report.next else ()),
    )


def verdict(report: Simulation) -> Iterator[Paragraph]:
    """How many pods get a node; of several runs how many in all of them."""
    total = report.placed + report.unplaced
    if report.interrupted:
        known = "this is what was known by then" if total else "nothing was known by then"
        yield paragraph(Marked("Interrupted:", Tone.WARNING), known)
    if total:
        yield _placed(report, total)
    elif not report.interrupted:
        yield paragraph(Marked("Nothing to schedule", Tone.GOOD), "")


def _placed(report: Simulation, total: int) -> Paragraph:
    runs = report.variation
    unplaced, placed = _spread(runs.pending) if runs else f"{report.unplaced:,}", f"{report.placed:,}"
    if runs and runs.placed.least < runs.placed.most:
        placed = _spread(runs.placed)
    word = Marked(f"{unplaced} {'pod' if unplaced == '1' else 'pods'} not scheduled:", Tone.BAD)
    homeless = sum(pod.fate in ("Pending", "Lost") for pod in report.evicted)
    evicted = f", {count(len(report.evicted), 'pod')} evicted" if report.evicted else ""
    evicted += f", of which {homeless:,} get no other node" if homeless else ""
    stuck = sum(workload.rollout.startswith("stuck") for workload in report.workloads)
    told = f"{evicted}, {count(stuck, 'rollout')} stuck" if stuck else evicted
    return paragraph(
        Marked("All scheduled:", Tone.GOOD) if unplaced == "0" else word,
        f"{placed} of {count(total, 'pod')} {'gets' if total == 1 else 'get'} a node{told}",
    )


def _workloads(workloads: Sequence[WorkloadPlacement], style: Style) -> Page:
    if not workloads:
        return ()
    shown, note = shown_first(workloads, None if style.wide else ROWS_SHOWN, SHOW_ALL)
    columns = [Column("workload", keep=True)]
    columns += [Column(name, right=True) for name in ("running", "pending", "removed", "nodes")]
    columns += [] if style.narrow else [Column("where"), Column("rollout")]
    rows = tuple(_workload(workload, style) for workload in shown)
    return section("Workloads", Table(tuple(columns), rows, note).without_empty_columns())


def _workload(workload: WorkloadPlacement, style: Style) -> tuple[Cell | Stack, ...]:
    """One row; where its pods are stands below it where there is no room beside it."""
    pending = Marked(f"{workload.pending:,}", Tone.BAD) if workload.pending else ""
    told = {key: values for key, values in workload.domains.items() if any(values.values())}
    where = "; ".join(f"{key.rpartition('/')[2]} {_domains(values)}" for key, values in told.items())
    if style.wide:
        where = "; ".join(filter(None, (where, _domains(workload.nodes))))
    running = f"{workload.running:,}/{workload.desired:,}"
    removed = f"{workload.removed:,}" if workload.removed else ""
    counts = (running, pending, removed, f"{len(workload.nodes):,}")
    if style.narrow:
        below = (Marked(text, Tone.FAINT) for text in (where, workload.rollout) if text)
        return (Stack((workload.workload, *below)), *counts)
    return (workload.workload, *counts, where, workload.rollout)


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
    columns = [Column("evicted pod", keep=True), Column("node", keep=True), Column("priority", right=True)]
    columns += [] if style.narrow else [Column("for", keep=True)]
    columns += [Column("then"), Column("budgets")]
    table = Table(tuple(columns), tuple(_evicted(pod, style) for pod in shown), note)
    return section("Evicted by preemption", table.without_empty_columns())


def _evicted(evicted: EvictedPod, style: Style) -> tuple[Cell | Stack, ...]:
    """One row; for whom the pod goes stands below it where there is no room beside it."""
    rest = _fate(evicted), ", ".join(evicted.budgets)
    if style.narrow:
        pod = Stack((evicted.pod, Marked(f"for {evicted.by}", Tone.FAINT)))
        return (pod, evicted.node, f"{evicted.priority}", *rest)
    return (evicted.pod, evicted.node, f"{evicted.priority}", evicted.by, *rest)


def _fate(evicted: EvictedPod) -> Cell:
    return evicted.target or Marked(evicted.fate, Tone.BAD)


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
        return readable(name, amount) if amount < 10_000 else f"{amount // 1000:,}"
    shifts = ((50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"))
    for shift, unit in shifts if readable(name, 1 << 40).endswith("Ti") else ():
        if amount >= 10 << shift:
            return f"{amount >> shift:,}{unit}"
    text = readable(name, amount)
    return f"{int(text):,}" if text.isdecimal() else text


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
