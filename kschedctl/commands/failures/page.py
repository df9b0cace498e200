"""The page of a Failures report, with texts that the page of a drain also shows."""

from __future__ import annotations

from functools import partial

from kschedctl.commands.failures.report import Failure, Failures
from kschedctl.render.page import (
    Bullets,
    Cell,
    Marked,
    Page,
    Style,
    build_subsection,
    count,
    names,
    paragraph,
)
from kschedctl.render.plots.plot import Plot, build_bar_plot, differ_in_total
from kschedctl.render.sections import (
    PODS,
    build_added_nodes_title,
    build_caveats,
    build_data_warning,
    build_next_section,
    build_pending_left_out_line,
    build_pods_before_and_after,
    build_pods_section,
    build_preempted_section,
    build_tried_orders_section,
    build_unplaced_section,
)
from kschedctl.render.tables import Row, build_table, number_columns
from kschedctl.render.unseen_pods import build_not_created_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import agreeing

FAILURES_SHOWN = 20
"""The maximum number of failures in the table."""
MAX_COSTS_IN_SENTENCE = 2
"""The number of kinds of costs up to which the worst failure is described in a sentence rather than a list."""


def build_page(report: Failures, style: Style) -> Page:
    """Build the page: the verdict, the ranking of failures, and the reasons of the worst failure."""
    answer, consequences, doubt = report.build_headline_parts()
    if not all(failure.safe for failure in report.failures):
        tone = Tone.BAD
    elif report.undecided or report.interrupted:
        tone = Tone.WARNING
    else:
        tone = Tone.GOOD
    verdict = Marked(answer, tone)
    costs = report.failures[0].describe_costs() if report.failures else ()
    if len(costs) > MAX_COSTS_IN_SENTENCE:
        worst_is = f"The worst is {report.name_failure(report.failures[0])}:"
        verdict_lines: Page = (paragraph(verdict, worst_is), Bullets(costs), *((paragraph(doubt),) if doubt else ()))
    else:
        verdict_lines = (paragraph(verdict, consequences, doubt),)
    return (
        *verdict_lines,
        *_build_outside_note(report),
        *(paragraph(Marked(f"{text}.", Tone.WARNING)) for text in report.describe_unready_nodes()),
        *build_pending_left_out_line(report.pending_left_out),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_build_failure_ranking(report, style),
        *_build_waiting_note(report),
        *(_build_worst_failure_sections(report.failures[0], report, style) if report.failures else ()),
        *build_next_section(style, _choose_next_title(report)),
    )


def _build_worst_failure_sections(worst: Failure, report: Failures, style: Style) -> Page:
    """Build the sections on the worst failure.

    They show a warning about pinned volumes, the pods that were not created, lost, unplaced or preempted, and the
    number of pods per zone before and after. After several runs, they also show which results depend on the order of
    the pods.
    """
    reasons = build_data_warning(worst.pinned_volumes)
    if worst.not_created:
        reasons += build_not_created_section(worst.not_created, style)
    reasons += tuple(paragraph(Marked("Lost:", Tone.WARNING), f"{job.describe()}.") for job in worst.failed_jobs)
    reasons += build_pods_section("Lost for good: no controller recreates them", worst.lost_without_controller, style)
    reasons += build_unplaced_section(worst.reasons, style)
    reasons += build_preempted_section(worst.evicted_pods, style)
    return (
        *(build_subsection(f"Worst {report.unit}: {worst.name}", reasons) if reasons else ()),
        *build_pods_before_and_after(worst.zones, worst.nodes_changed, f" the loss of {worst.name}"),
        *build_tried_orders_section(report.runs, worst.unplaced_over_runs, worst.in_no_order),
    )


def _choose_next_title(report: Failures) -> str:
    """Return the title of the section with the `whatif` command, which includes pending pods, unlike this report."""
    if report.remedy:
        return build_added_nodes_title(report.remedy)
    pending = ", including pending pods" if report.pending_left_out.pods else ""
    return f"Next (simulate the worst loss and show what happens to each pod{pending})"


def _build_outside_note(report: Failures) -> Page:
    """Build a note about the nodes that no failure includes, because they belong to no unit.

    Return () if every node belongs to a unit.
    """
    if not report.outside:
        return ()
    unit = report.single_unit
    nodes = count(len(report.outside), "node")
    verb = agreeing(len(report.outside), "belongs", "belong")
    label = Marked(f"{nodes} {verb} to no {unit}:", Tone.WARNING)
    return (paragraph(label, f"{names(report.outside)} (without a {unit} label, so no simulated loss includes them)"),)


def _build_waiting_note(report: Failures) -> Page:
    """Build notes on the pods that get a node, or run again, only once the lost nodes are deleted.

    Return () if there are no such pods.
    """
    texts = [*report.describe_waiting_pods(), *(report.failures[0].describe_late_pods() if report.failures else ())]
    return tuple(paragraph(Marked(f"{text}.", Tone.WARNING)) for text in texts)


def _build_failure_ranking(report: Failures, style: Style) -> Page:
    """Build a table and a plot of the failures, the worst first. Return () if there are no failures.

    The number of nodes is left out if it is the same for all failures.
    """
    have_same_node_count = len({len(failure.nodes) for failure in report.failures}) == 1
    columns = [Column(report.unit, keep=True)]
    columns += number_columns(
        "nodes", "displaced", "displaced and pending", "preempted", "preempted and pending", "lost for good"
    )
    columns += number_columns("wait for node deletion", "restart late")
    build_row = partial(_build_failure_row, same_node_count=have_same_node_count)
    table = build_table(
        report.failures,
        columns,
        build_row,
        style,
        title="Simulated losses, worst first",
        limit=FAILURES_SHOWN,
        full=False,
    )
    return (*table, *_build_counting_note(report), *_plot_costs_by_failure(report, style)) if table else ()


def _build_counting_note(report: Failures) -> Page:
    """Build the note below the table about the pods that its columns count, and the pods that none of them counts."""
    displaced = "displaced: pods on the lost nodes, if a controller recreates them"
    if any(failure.waiting_until_deleted for failure in report.failures):
        displaced += ", including those that wait for node deletion"
    texts = [displaced]
    if any(failure.lost for failure in report.failures):
        texts.append("lost for good: pods that no controller recreates, and pods of Jobs that fail")
    if any(failure.late for failure in report.failures):
        texts.append(
            "restart late: displaced pods that get a node, but run again only after the lost nodes' Node objects are "
            "deleted"
        )
    if any(failure.ending for failure in report.failures):
        texts.append("not counted: DaemonSet, static and terminating pods")
    return tuple(paragraph(Marked(text, Tone.FAINT)) for text in texts)


def _build_failure_row(failure: Failure, same_node_count: bool) -> Row:
    """Build the table row of a failure. With `same_node_count`, the number of nodes is left out."""
    nodes = "" if same_node_count else f"{len(failure.nodes):,}"
    unplaced = _format_number(failure, "unplacedDisplaced", failure.unplaced_displaced)
    evicted = _format_number(failure, "evicted", failure.evicted)
    unplaced_evicted = _format_number(failure, "unplacedEvicted", failure.unplaced_evicted) if failure.evicted else ""
    lost = f"{failure.lost:,}" if failure.lost else ""
    waiting = len(failure.waiting_until_deleted)
    waiting_cell = Marked(f"{waiting:,}", Tone.BAD) if waiting else ""
    late = f"{failure.late:,}" if failure.late else ""
    displaced = f"{failure.displaced:,}"
    return (failure.name, nodes, displaced, unplaced, evicted, unplaced_evicted, lost, waiting_cell, late)


def _format_number(failure: Failure, name: str, number: int) -> Cell:
    """Format a number of pods or, after several runs, its minimum and maximum. The cell is red if the number is not 0.

    `name` is the key of the number in `over_runs`.
    """
    text = str(failure.over_runs[name]) if failure.over_runs else f"{number:,}"
    return Marked(text, Tone.BAD) if number else text


def _plot_costs_by_failure(report: Failures, style: Style) -> tuple[Plot, ...]:
    """Plot how many pods each failure costs, each pod counted once. Failures without consequences are left out.

    Unless plots are requested, return () if all failures cost equally many pods.
    """
    amounts = {
        failure.name: {
            "without a node": failure.unplaced_displaced,
            "evicted from other nodes, without a new node": failure.unplaced_evicted,
            "evicted elsewhere": failure.evicted - failure.unplaced_evicted - failure.lost_victims,
            "lost for good": failure.lost,
            "waiting until the lost nodes' Node objects are deleted": len(failure.waiting_until_deleted),
        }
        for failure in report.failures
        if failure.unplaced or failure.waiting_until_deleted or failure.evicted or failure.lost
    }
    if not (style.plots or differ_in_total(amounts)):
        return ()
    title = f"Pods that the loss of a {report.unit} costs"
    return build_bar_plot(title, (report.unit, PODS), amounts, len(amounts), stacked=True)
