"""The page of a Simulation: how many fit, each workload, who stays Pending and why, who is evicted, what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kschedctl.render.page import (
    Bullets,
    Marked,
    Page,
    Paragraph,
    Style,
    count,
    names,
    paragraph,
    section,
)
from kschedctl.render.pages.sections import (
    before_and_after,
    caveats,
    evicted_section,
    headroom_section,
    interruption,
    next_section,
    retried_section,
    spread_text,
    unplaced_section,
    variation_section,
)
from kschedctl.render.tables import listed
from kschedctl.reports.columns import Tone
from kschedctl.reports.simulation import SimulationReport, WorkloadPlacement
from kschedctl.reports.unknown import doubt


def simulation_page(report: SimulationReport, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *_verdict(report),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
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
    cells = {"running": _running, "domains": lambda workload: _where(workload, style)}
    return listed(workloads, style, cells, title="Workloads", full=False)


def _running(workload: WorkloadPlacement) -> str:
    return f"{workload.running:,}/{workload.desired:,}"


def _where(workload: WorkloadPlacement, style: Style) -> str:
    told = {key: values for key, values in workload.domains.items() if any(values.values())}
    where = [f"{key.rpartition('/')[2]} {_domains(values)}" for key, values in told.items()]
    return "; ".join(filter(None, [*where, _domains(workload.nodes) if style.wide else ""]))


def _domains(values: Mapping[str, int]) -> str:
    return ", ".join(f"{value}: {number:,}" for value, number in values.items())
