"""The page of a simulation: how many pods fit, each workload, pending and evicted pods, and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kschedctl.commands.explain.new_node_page import build_growth_page
from kschedctl.commands.simulate.report import SimulationReport, WorkloadPlacement
from kschedctl.render.page import (
    Bullets,
    Marked,
    Page,
    Paragraph,
    Style,
    names,
    paragraph,
    section,
)
from kschedctl.render.sections import (
    build_caveats,
    build_headroom_section,
    build_interruption_line,
    build_next_section,
    build_pods_before_and_after,
    build_preempted_section,
    build_retried_section,
    build_unplaced_section,
    build_variation_section,
)
from kschedctl.render.tables import build_struct_table
from kschedctl.render.unseen_pods import build_held_back_section, build_not_created_section
from kschedctl.reports.columns import Tone
from kschedctl.text.counts import agreeing, counted

if TYPE_CHECKING:
    from kschedctl.render.html.sections import HtmlSection


def build_simulation_page(report: SimulationReport, style: Style) -> Page:
    """Build the page of a simulation. Sections without content are left out."""
    return (
        *_build_verdict_lines(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_build_workloads_table(
            report.workloads, style, "Workloads, before nodes come" if report.growth else "Workloads"
        ),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *(build_growth_page(report.growth, style) if report.growth else build_unplaced_section(report.pending, style)),
        *(build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()),
        *build_retried_section(report.retried, style),
        *build_preempted_section(report.evicted, style, report.chain),
        *build_headroom_section(report.headroom),
        *build_pods_before_and_after(report.zones, report.nodes_changed),
        *build_variation_section(report.variation),
        *(section("Notes", Bullets(report.assumed)) if report.assumed else ()),
        *build_next_section(style),
    )


def _build_verdict_lines(report: SimulationReport) -> Page:
    """Build the lines with the verdict: how many pods get a node, how many workloads fit, and what waits for Permit.

    If the user interrupted before anything was known, the lines say only that.
    """
    total = report.placed + report.unplaced
    if report.interrupted and not total:
        return build_interruption_line(interrupted=True, description="nothing was known by then")
    if report.most_unplaced or report.not_created:
        tone = Tone.BAD
    elif (report.undecided and total) or report.waiting_elsewhere:
        tone = Tone.WARNING
    else:
        tone = Tone.GOOD
    verdict, sentence = report.build_first_line()
    return (
        *build_interruption_line(report.interrupted),
        paragraph(Marked(verdict, tone), sentence),
        *_iter_fit_summary(report),
        *(paragraph(Marked(line[:1].upper() + line[1:], Tone.WARNING)) for line in report.iter_harm()),
        *map(paragraph, report.autoscaled),
        *_iter_permit_wait_line(report),
    )


def _iter_fit_summary(report: SimulationReport) -> Iterator[Paragraph]:
    """Yield a line that says how many of several workloads fit, and which do not.

    Nothing is yielded if all fit, or if the answer depends on seeds or new nodes.
    """
    if report.growth or report.variation:
        return
    failing = [workload.workload for workload in report.workloads if workload.pending]
    failing += [denied.workload for denied in report.not_created if denied.workload not in failing]
    fitting = [workload.workload for workload in report.workloads if workload.workload not in failing]
    if not failing or len(failing) + len(fitting) < 2:
        return
    kinds = {title.partition(" ")[0] for title in (*failing, *fitting)}
    noun = kinds.pop() if len(kinds) == 1 else "workload"
    if not fitting:
        yield paragraph(f"None of {len(failing):,} {noun}s fits: {names(failing)}")
        return
    fit = f"{counted(len(fitting), noun)} {agreeing(len(fitting), 'fits', 'fit')}"
    do_not = f"{len(failing):,} {agreeing(len(failing), 'does', 'do')} not"
    yield paragraph(f"{fit}, {do_not}: {names(failing)}")


def _iter_permit_wait_line(report: SimulationReport) -> Iterator[Paragraph]:
    """Yield a line about the pods that have a node but wait for Permit."""
    if report.waiting:
        number = len(report.waiting)
        text = f"{number:,} of these {agreeing(number, 'waits', 'wait')} for Permit:"
        yield paragraph(Marked(text, Tone.WARNING), names(tuple(dict.fromkeys(report.waiting.values()))))


def _build_workloads_table(workloads: Sequence[WorkloadPlacement], style: Style, title: str) -> Page:
    """Build the table of workloads, with the pods of each and where they run."""
    cells = {
        "running": _format_running,
        "domains": lambda workload: _format_domains(workload, style),
        "rollout": lambda workload: _format_rollout(workload, style),
    }
    return build_struct_table(workloads, style, cells, title=title, full=False)


def _format_running(workload: WorkloadPlacement) -> str:
    """Return the numbers of running and desired pods, such as `3/5`."""
    return f"{workload.running:,}/{workload.desired:,}"


def _format_rollout(workload: WorkloadPlacement, style: Style) -> str:
    """Return the progress of the rollout and its limits, or an empty string. In a narrow style, no header names it."""
    if not workload.rollout:
        return ""
    limits = f"at most {workload.surge:,} extra and {workload.unavailable:,} missing at a time"
    return f"{'rollout ' if style.narrow else ''}{workload.rollout} ({limits})"


def _format_domains(workload: WorkloadPlacement, style: Style) -> str:
    """Return the number of pods in each topology domain, and on each node if the output is wide.

    Topology keys without pods are left out, and keys are shortened to the part after the slash.
    """
    parts = []
    for key, counts in workload.domains.items():
        if any(counts.values()):
            _, _, short_key = key.rpartition("/")
            parts.append(f"{short_key} {_format_counts(counts)}")
    if style.wide and workload.nodes:
        parts.append(_format_counts(workload.nodes))
    return "; ".join(parts)


def _format_counts(values: Mapping[str, int]) -> str:
    """Return counts as text, such as `a: 1, b: 2`."""
    return ", ".join(f"{value}: {number:,}" for value, number in values.items())


def build_simulation_widgets(report: SimulationReport) -> list[HtmlSection]:
    """Build a matrix of nodes and plugins for each kind of unplaced pod, for the HTML form."""
    from kschedctl.commands.explain.html_widgets import build_matrices_of_explained  # noqa: PLC0415 - only HTML has them

    title = "Nodes and plugins, for each pod that is not scheduled"
    return build_matrices_of_explained(report.explained, report.unplaced, title=title, elsewhere="")
