"""The pages of a simulation and of a followed rollout.

A simulation shows how many pods fit, each workload, pending and evicted pods, and what is left. A FollowedRollout shows
the pods that the replay would have placed elsewhere, and possible causes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kschedctl.api.ownership import Owner
from kschedctl.commands.explain.new_node_page import build_new_nodes_page
from kschedctl.commands.simulate.following_report import (
    BEST_OF_A_PART,
    DIFFERING_OUTCOMES,
    NOT_BEST,
    NOT_COMPARED,
    NOT_FEASIBLE,
    NOT_LOOKED_AT,
    OTHER_SCHEDULER,
    UNKNOWN_NODE,
    UNKNOWN_POD,
    FollowedPlacement,
    FollowedRollout,
)
from kschedctl.commands.simulate.report import SimulationReport, WorkloadPlacement
from kschedctl.render.page import (
    Bullets,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    count,
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
from kschedctl.render.tables import build_struct_table, build_table
from kschedctl.render.unseen_pods import build_held_back_section, build_not_created_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import agreeing, counted

if TYPE_CHECKING:
    from kschedctl.render.html.sections import HtmlSection


_MEANINGS = {
    NOT_FEASIBLE: (
        "not feasible: the scheduler saw other pods or nodes, because its cache was stale or pods have gone since"
    ),
    NOT_BEST: "not the best: the scheduler had an extender, a plugin or weights that this configuration lacks "
    "(--config), or images or labels of nodes have changed since",
    NOT_LOOKED_AT: "not evaluated: kube-scheduler's search for nodes began elsewhere (--start-index)",
    OTHER_SCHEDULER: (
        "another scheduler places pods on these nodes, and neither scheduler knows what the other is about to do"
    ),
    UNKNOWN_NODE: "unknown node: it has been removed since, or these nodes are from another cluster",
}
"""Possible causes of each outcome that overlapping bindings do not explain."""
_OVERLAP = (
    "overlapping bindings: the replay agrees if the pod was tried before or after the named pods. An event has the "
    "time at which a binding was done, and bindings of a burst wait for each other"
)
_MAX_SHOWN_PLUGINS = 4
"""The maximum number of plugins whose points are listed."""


def build_simulation_page(report: SimulationReport, style: Style) -> Page:
    """Build the page of a simulation. Sections without content are left out."""
    return (
        *_build_verdict_lines(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_build_workloads_table(
            report.workloads, style, "Workloads, before new nodes are added" if report.growth else "Workloads"
        ),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *(
            build_new_nodes_page(report.growth, style)
            if report.growth
            else build_unplaced_section(report.pending, style)
        ),
        *(build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()),
        *build_retried_section(report.retried, style),
        *build_preempted_section(report.evicted, style, report.chain),
        *(
            build_preempted_section(report.growth.preempted, style, title="Preempted pods, after new nodes are added")
            if report.growth
            else ()
        ),
        *build_headroom_section(report.headroom),
        *build_pods_before_and_after(report.zones, report.nodes_changed),
        *build_variation_section(report.variation),
        *(section("Notes", Bullets(report.assumed)) if report.assumed else ()),
        *build_next_section(style, _choose_next_title(report)),
    )


def _choose_next_title(report: SimulationReport) -> str:
    """Return the title above the next commands, which says what a repetition of the simulation would add.

    If pods get no node, are not created or still wait, the title first names the command about these pods.
    """
    parts = []
    if report.new_pending_pods or report.not_created:
        parts.append("find fixes for the pods without a node")
    elif report.still_waiting:
        parts.append("see why pods still wait")
    if report.left_out or report.replaces_at_once:
        simulated = "simulate a rollout" if report.replaces_at_once else "simulate again"
        parts.append(f"{simulated} together with the pending pods" if report.left_out else simulated)
    return f"Next ({', then '.join(parts)})" if parts else "Next"


def _build_verdict_lines(report: SimulationReport) -> Page:
    """Build the lines with the verdict: how many pods get a node, how many workloads fit, and what waits for Permit.

    If the user interrupted before anything was known, the lines say only that.
    """
    total = report.placed + report.unplaced
    if report.interrupted and not total:
        return build_interruption_line(interrupted=True, description="nothing was known by then")
    if report.most_unplaced or report.not_created:
        tone = Tone.BAD
    elif (report.undecided and total) or report.waiting_elsewhere or report.homeless_pods or report.unplaced:
        tone = Tone.WARNING
    else:
        tone = Tone.GOOD
    verdict, sentence = report.build_headline_parts()
    return (
        *build_interruption_line(report.interrupted),
        paragraph(Marked(verdict, tone), sentence),
        *_build_fit_summary(report),
        *(paragraph(Marked(line[:1].upper() + line[1:], Tone.WARNING)) for line in report.iter_harm_warnings()),
        *map(paragraph, report.autoscaled),
        *([_build_permit_wait_line(report.waiting)] if report.waiting else ()),
    )


def _build_fit_summary(report: SimulationReport) -> Page:
    """Build the line that says how many of several workloads fit, and which workloads do not fit.

    Return () if all workloads fit, if there is only one workload, or if the answer depends on seeds or new nodes.
    """
    if report.growth or report.variation:
        return ()
    failing = [workload.workload for workload in report.workloads if workload.pending]
    failing += [denied.workload for denied in report.not_created if denied.workload not in failing]
    fitting = [workload.workload for workload in report.workloads if workload.workload not in failing]
    if not failing or len(failing) + len(fitting) < 2:
        return ()
    kinds = {Owner.parse(title).kind for title in (*failing, *fitting)}
    noun = kinds.pop() if len(kinds) == 1 else "workload"
    if not fitting:
        return (paragraph(f"None of {len(failing):,} {noun}s fits: {names(failing)}"),)
    fit = f"{counted(len(fitting), noun)} {agreeing(len(fitting), 'fits', 'fit')}"
    do_not = f"{len(failing):,} {agreeing(len(failing), 'does', 'do')} not"
    return (paragraph(f"{fit}, {do_not}: {names(failing)}"),)


def _build_permit_wait_line(reason_by_pod: Mapping[str, str]) -> Paragraph:
    """Build the line about the pods that have a node but wait at Permit."""
    number = len(reason_by_pod)
    text = f"{number:,} of these {agreeing(number, 'waits', 'wait')} at Permit:"
    return paragraph(Marked(text, Tone.WARNING), names(tuple(dict.fromkeys(reason_by_pod.values()))))


def _build_workloads_table(workloads: Sequence[WorkloadPlacement], style: Style, title: str) -> Page:
    """Build the table of workloads, with the pods of each and where they run."""
    cells = {
        "running": _format_running,
        "domains": lambda workload: _format_pods_per_domain(workload, style),
        "rollout": lambda workload: _format_rollout(workload, style),
    }
    return build_struct_table(workloads, style, cells, title=title, full=False)


def _format_running(workload: WorkloadPlacement) -> str:
    """Return the numbers of running and desired pods, such as `3/5`."""
    return f"{workload.running:,}/{workload.desired:,}"


def _format_rollout(workload: WorkloadPlacement, style: Style) -> str:
    """Return the progress of the rollout and its limits, or "" if there is no rollout.

    Narrow output has no column header, so the text itself begins with "rollout".
    """
    if not workload.rollout:
        return ""
    limits = f"at most {workload.surge:,} extra and {workload.unavailable:,} missing at a time"
    return f"{'rollout ' if style.narrow else ''}{workload.rollout} ({limits})"


def _format_pods_per_domain(workload: WorkloadPlacement, style: Style) -> str:
    """Format the number of pods in each topology domain and, in wide output, on each node.

    Topology keys without pods are left out, and keys are shortened to the part after the slash.
    """
    parts = []
    for key, counts in workload.domains.items():
        if any(counts.values()):
            _, _, short_key = key.rpartition("/")
            parts.append(f"pods per {short_key}: {_format_counts(counts)}")
    if style.wide and workload.nodes:
        parts.append(f"pods per node: {_format_counts(workload.nodes)}")
    return "; ".join(parts)


def _format_counts(values: Mapping[str, int]) -> str:
    """Return counts as text, such as `a 1, b 2`."""
    return ", ".join(f"{value} {number:,}" for value, number in values.items())


def build_simulation_widgets(report: SimulationReport) -> list[HtmlSection]:
    """Build a matrix of nodes and plugins for each kind of unplaced pod, for the HTML form."""
    from kschedctl.commands.explain.html_widgets import build_matrices_of_explained  # noqa: PLC0415 - only HTML has them

    title = "Nodes and plugins, for each pod that is not scheduled"
    return build_matrices_of_explained(report.explained, report.unplaced, title=title, elsewhere="")


def build_followed_rollout_page(report: FollowedRollout, style: Style) -> Page:
    """Build the page: the verdict, caveats, differing pods with their possible causes, pods not compared, and notes."""
    differing = [placement for placement in report.placements if placement.outcome in DIFFERING_OUTCOMES]
    not_compared = [placement for placement in report.placements if placement.outcome in (UNKNOWN_POD, NOT_COMPARED)]
    outcomes = {placement.outcome for placement in differing if not placement.overlapping}
    causes = [text for outcome, text in _MEANINGS.items() if outcome in outcomes]
    if any(placement.overlapping for placement in differing):
        causes.insert(0, _OVERLAP)
    return (
        *build_interruption_line(report.interrupted),
        *_iter_verdict_lines(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_build_placements_table("Otherwise", differing, style),
        *(section("Possible causes", Bullets(tuple(causes))) if causes else ()),
        *_build_placements_table("Not compared", not_compared, style),
        *(section("Notes", Bullets(report.assumed)) if report.assumed else ()),
    )


def _iter_verdict_lines(report: FollowedRollout) -> Iterator[Paragraph]:
    """Yield the verdict, and how many placements overlapping bindings or sampling may explain."""
    verdict, sentence = report.build_headline_parts()
    agreed = Tone.GOOD if report.agree and not report.undecided else Tone.WARNING
    yield paragraph(Marked(verdict, Tone.BAD if report.otherwise else agreed), sentence)
    reordered = sum(bool(placement.order) for placement in report.placements)
    if reordered:
        yield paragraph(
            f"{reordered:,} of these agree only if tried milliseconds before or after the time in the event, because "
            "bindings overlap"
        )
    overlapping = sum(bool(placement.overlapping) for placement in report.placements)
    if overlapping:
        yield paragraph(
            f"overlapping bindings could explain {overlapping:,} of {count(report.otherwise, 'pod')} placed otherwise"
        )
    best_of_part = sum(placement.outcome == BEST_OF_A_PART for placement in report.placements)
    if best_of_part:
        was_best = agreeing(best_of_part, "was the best", "were the best")
        yield paragraph(f"{best_of_part:,} of these {was_best} of the part of the nodes that kube-scheduler evaluates")


def _build_placements_table(title: str, placements: Sequence[FollowedPlacement], style: Style) -> Page:
    """Build a table of placements, each with lines that say how the replay differs."""
    columns = (Column("pod", keep=True), Column("node", keep=True), Column("reason"))
    return build_table(
        placements,
        columns,
        lambda placement: (placement.pod, placement.node, Stack(tuple(_iter_placement_explanations(placement)))),
        style,
        title=title,
    )


def _iter_placement_explanations(placement: FollowedPlacement) -> Iterator[str]:
    """Yield lines on how the replay differs, and on the overlapping bindings that may explain the difference."""
    yield from _iter_replay_difference_lines(placement)
    before = [binding for binding in placement.overlapping if binding.milliseconds <= 0]
    after = [binding for binding in placement.overlapping if binding.milliseconds > 0]
    for word, bindings in (("before", before), ("after", after)):
        if bindings:
            descriptions = [
                f"{binding.pod} ({binding.node}, {abs(binding.milliseconds):,} ms {word})" for binding in bindings
            ]
            yield f"as replayed if tried {word} {names(descriptions)}"


def _iter_replay_difference_lines(placement: FollowedPlacement) -> Iterator[str]:
    """Yield lines that say why the replay would have placed the pod on another node, or why it cannot tell."""
    outcome = placement.outcome
    if outcome == NOT_FEASIBLE:
        yield f"rejected by {placement.plugin or 'PreFilter'}: {', '.join(placement.reasons)}"
        yield f"{count(placement.feasible, 'other node')} {agreeing(placement.feasible, 'fits', 'fit')}"
    elif outcome == NOT_BEST:
        largest_losses = sorted(placement.lost.items(), key=lambda item: -abs(item[1]))[:_MAX_SHOWN_PLUGINS]
        yield f"{count(placement.behind, 'point')} behind {names(placement.best)}"
        yield ", ".join(f"{plugin} {-points:+}" for plugin, points in largest_losses)
    elif outcome == OTHER_SCHEDULER:
        yield f"placed by {placement.scheduler or 'another scheduler'}, which no profile replays"
    elif outcome == UNKNOWN_NODE:
        yield "the cluster has no such node"
    elif outcome == NOT_LOOKED_AT:
        yield "it fits, but is not among the nodes that were searched"
    else:
        yield ", ".join(placement.reasons)
