"""The page of a Simulation: how many fit, each workload, who stays Pending and why, who is evicted, what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kschedctl.render.page import (
    Bullets,
    Cell,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    Table,
    count,
    first_rows,
    names,
    paragraph,
    section,
)
from kschedctl.render.pages.extenders import extended_lines
from kschedctl.render.pages.over_runs import spread_text, variation_section
from kschedctl.render.pages.plotted.places import before_and_after
from kschedctl.render.pages.sections import (
    ROWS_SHOWN,
    evicted_section,
    headroom_section,
    interruption,
    left_out_lines,
    next_section,
    not_known_lines,
    retried_section,
    search_lines,
    unplaced_section,
)
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.simulation import SimulationReport, WorkloadPlacement
from kschedctl.reports.unknown import doubt


def simulation_page(report: SimulationReport, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *_verdict(report),
        *left_out_lines(report.not_replayed, report.ignored),
        *extended_lines(report.extended),
        *not_known_lines(report.unknown),
        *search_lines(report.search_start),
        *_workloads(report.workloads, style),
        *unplaced_section(report.pending, style),
        *retried_section(report.retried, style),
        *evicted_section(report.evicted, style),
        *headroom_section(report.headroom),
        *before_and_after(report.zones, report.nodes_changed),
        *variation_section(report.variation),
        *(section("Notes", Bullets(report.assumed)) if report.assumed else ()),
        *next_section(style),
    )


def _verdict(report: SimulationReport) -> Page:
    """How many pods get a node; of several runs how many in all of them."""
    total = report.placed + report.unplaced
    if report.interrupted and not total:
        return interruption(True, "nothing was known by then")
    told = _placed(report, total) if total else paragraph(Marked("Nothing to schedule", Tone.GOOD), "")
    return (*interruption(report.interrupted), told, *_waiting(report))


def _waiting(report: SimulationReport) -> Iterator[Paragraph]:
    """The pods that have a node, but are not bound there yet."""
    if report.waiting:
        number, reasons = len(report.waiting), names(tuple(dict.fromkeys(report.waiting.values())))
        word = Marked(f"{number:,} of these {'waits' if number == 1 else 'wait'} for Permit:", Tone.WARNING)
        yield paragraph(word, f"{reasons}")


def _placed(report: SimulationReport, total: int) -> Paragraph:
    runs = report.variation
    unplaced, placed = spread_text(runs.pending) if runs else f"{report.unplaced:,}", f"{report.placed:,}"
    if runs and runs.placed.least < runs.placed.most:
        placed = spread_text(runs.placed)
    word = Marked(f"{unplaced} {'pod' if unplaced == '1' else 'pods'} not scheduled:", Tone.BAD)
    homeless = sum(pod.fate in ("Pending", "Lost") for pod in report.evicted)
    evicted = f", {count(len(report.evicted), 'pod')} evicted" if report.evicted else ""
    evicted += f", {homeless:,} of them without another node" if homeless else ""
    stuck = sum(workload.rollout.startswith("stuck") for workload in report.workloads)
    told = f"{evicted}, {count(stuck, 'rollout')} stuck" if stuck else evicted
    return paragraph(
        Marked("All scheduled:", Tone.WARNING if report.undecided else Tone.GOOD) if unplaced == "0" else word,
        f"{placed} of {count(total, 'pod')} {'gets' if total == 1 else 'get'} a node{told}{doubt(report.unknown)}",
    )


def _workloads(workloads: Sequence[WorkloadPlacement], style: Style) -> Page:
    if not workloads:
        return ()
    shown, note = first_rows(workloads, style, ROWS_SHOWN)
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
