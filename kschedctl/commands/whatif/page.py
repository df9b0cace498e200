"""The page of a what-if: the steps, the pods that end up elsewhere, and the zones before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kschedctl.commands.whatif.report import (
    CHANGES,
    LOST,
    NUMBERS_OVER_RUNS,
    DomainBalance,
    MessageChange,
    PodChange,
    PodsElsewhere,
    Replacement,
    StepReport,
    WhatIf,
)
from kschedctl.render.page import Cell, Marked, Page, Paragraph, Stack, Style, Table, count, names, paragraph, section
from kschedctl.render.plots.plot import MAX_PLACES, Plot, build_bar_plot
from kschedctl.render.sections import (
    PODS,
    build_caveats,
    build_data_warning,
    build_interruption_line,
    build_runs_section,
    build_unplaced_section,
    build_zone_plot,
)
from kschedctl.render.tables import Cells, build_struct_table
from kschedctl.render.unseen_pods import build_not_created_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.placements import PodCount, UnplacedPods

if TYPE_CHECKING:
    from kschedctl.render.html.sections import HtmlSection

CHANGES_SHOWN = 30
DISPLACED_NOTE = "displaced: pods that a controller recreates on other nodes, so not those of DaemonSets"
TOGETHER = " together with "
"""Joins several causes of one difference."""
TONES = {"NewlyPending": Tone.BAD, LOST: Tone.BAD, "Gone": Tone.WARNING, "NewlyScheduled": Tone.GOOD}


def build_page(report: WhatIf, style: Style) -> Page:
    """Build the page of a what-if. Sections without content are left out."""
    return (
        *build_interruption_line(report.interrupted),
        *_iter_summary_lines(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *build_data_warning(report.pinned_volumes),
        *_build_step_tables(report, style),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *_build_changes_section(report.changes, style),
        *_build_messages_table(report.messages, style),
        *_build_replacement_section(report.replacement, style),
        *_build_zones_section(report.balance, report.compared),
        *build_runs_section(report.runs, report.over_runs, NUMBERS_OVER_RUNS),
    )


def _build_step_tables(report: WhatIf, style: Style) -> Page:
    """Build the table of the steps, or a table for each of two compared schedulers if their steps differ."""
    tables = {"Steps": report.steps}
    if report.compared and report.steps_before != report.steps:
        name_before, name_after = report.compared
        tables = {f"Steps under {name_before}": report.steps_before, f"Steps under {name_after}": report.steps}
    displaced_note: Page = ()
    if any(step.ending for step in report.steps):
        displaced_note = (paragraph(Marked(DISPLACED_NOTE, Tone.FAINT)),)
    blocks = tuple(
        block
        for title, steps in tables.items()
        for block in build_struct_table(
            steps, style, {"step": _build_step_cell}, limit=None, numbered="step", title=title, full=False
        )
    )
    return (*blocks, *displaced_note)


def _build_step_cell(step: StepReport) -> str:
    """Return the step and the objects that it is about."""
    return f"{step.step} {step.subject}".strip()


def _iter_summary_lines(report: WhatIf) -> Iterator[Paragraph]:
    """Yield the lines of the summary: the verdict, the number of pending pods, and what is harmed in order of time.

    If two schedulers are compared, a line names them. If one of them is replayed from its sources only, the last line
    says so.
    """
    verdict, *sentences = report.build_headline_parts()
    has_harmed_pods = any(change.outcome in ("NewlyPending", LOST) for change in report.changes)
    if report.incomplete_steps or report.not_created or has_harmed_pods or report.pods_waiting_until_deleted:
        tone = Tone.BAD
    elif report.undecided or report.messages or report.down_nodes or report.waits_between_steps or report.outages:
        tone = Tone.WARNING
    else:
        tone = Tone.GOOD
    yield paragraph(Marked(verdict, tone), *sentences)
    yield from _iter_pending_count_lines(report)
    for text in report.describe_evictions_before():
        yield paragraph(Marked("Before the steps:", Tone.WARNING), f"{text}.")
    for text in report.describe_waits_between_steps():
        yield paragraph(Marked("Between the steps:", Tone.WARNING), f"{text}.")
    for text in report.describe_evictions_in_steps():
        yield paragraph(Marked(f"{text[:1].upper()}{text[1:]}.", Tone.WARNING))
    for text in report.describe_eviction_harms():
        yield paragraph(Marked(f"{text}.", Tone.WARNING))
    for text in report.describe_pods_until_deletion():
        yield paragraph(Marked("Warning:", Tone.WARNING), f"{text}.")
    if report.compared:
        name_before, name_after = report.compared
        when = ", each once the steps are taken" if report.steps else ""
        yield paragraph(f"Before: under {name_before}. After: under {name_after}{when}")
    if report.unverified:
        yield paragraph(Marked("Not verified:", Tone.WARNING), report.unverified)


def _build_changes_section(changes: Sequence[PodChange], style: Style) -> Page:
    """Build the sections on pods that end up elsewhere. Return () if there are none.

    First come the newly pending pods with their messages, then a table of all changes, and a plot of the moves.
    """
    if not changes:
        return ()
    order = list(CHANGES)
    sorted_changes = sorted(changes, key=lambda change: order.index(change.outcome))
    cells: Cells[PodChange] = {"change": _mark_change, "before": _describe_node_before, "because": _join_causes}
    table = build_struct_table(sorted_changes, style, cells, title="Pods", limit=CHANGES_SHOWN, full=False)
    return (*_build_newly_pending_section(changes, style), *table, *_build_moves_plot(changes))


def _mark_change(change: PodChange) -> Marked:
    """Return the kind of change in words, in the color that shows whether it is good or bad."""
    return Marked(CHANGES[change.outcome], TONES.get(change.outcome, Tone.PLAIN))


def _describe_node_before(change: PodChange) -> str:
    """Return the node before, and say so if the pod is pending now and would only get this node without the steps."""
    return f"{change.before} (pending now)" if change.before and change.waits_now else change.before


def _build_messages_table(messages: Sequence[MessageChange], style: Style) -> Page:
    """Build the table of pods that wait both before and after, but with another message after the change."""
    return build_struct_table(
        messages,
        style,
        {"before": _build_old_message_cell},
        title="Changed messages of pending pods",
        limit=CHANGES_SHOWN,
    )


def _build_old_message_cell(message: MessageChange) -> Stack:
    """Build the cell with the message before, its causes and the pods."""
    because = (f"because of {TOGETHER.join(message.because)}",) if message.because else ()
    return Stack((message.before, *because, Marked(names(message.pods), Tone.FAINT)))


def _join_causes(changed: PodChange | PodsElsewhere) -> str:
    """Join the version changes that together cause a difference."""
    return TOGETHER.join(changed.because)


def _iter_pending_count_lines(report: WhatIf) -> Iterator[Paragraph]:
    """Yield how many pods are pending before and after the steps, or under the compared schedulers.

    If pods that wait now get a node even without the steps, the sentence says so first.
    """
    fitting = report.waiting_placed
    prefix = ""
    if fitting and not report.compared:  # the pods before are then those under the first scheduler, after the steps
        gets = "gets" if fitting == 1 else "get"
        of_pods = f"{fitting:,} of {count(report.waiting, 'pod')} pending now"
        prefix = f"{of_pods} {gets} a node even without the steps, so "
    yield paragraph(f"{prefix}{report.describe_pending_counts()}")


def _build_replacement_section(replacement: Replacement | None, style: Style) -> Page:
    """Build the section on running pods that would go to other nodes if recreated, with the largest groups first.

    Return () if running pods were not compared.
    """
    if replacement is None:
        return ()
    pod_count = sum(len(group.pods) for group in replacement.elsewhere)
    pods = f"{pod_count:,} of {count(replacement.asked, 'pod')}"
    if replacement.asked < replacement.running:
        pods += f" (of {replacement.running:,} running)"
    summary = paragraph(f"{pods} would get a different best node if recreated")
    failed_line: Page = ()
    if replacement.failed:
        failed_line = (paragraph(f"{count(replacement.failed, 'pod')} could not be compared, because a plugin fails"),)
    groups = sorted(replacement.elsewhere, key=lambda group: -len(group.pods))
    has_causes = any(group.because for group in groups)  # only comparisons of versions have causes
    tables = build_struct_table(groups, style, {"because": _join_causes}, limit=CHANGES_SHOWN, full=has_causes)
    return section("Running pods", summary, *failed_line, *_iter_rescored_lines(replacement), *tables)


def _iter_rescored_lines(replacement: Replacement) -> Iterator[Paragraph]:
    """Yield a line for each combination of causes: how many pods have other scores but the same best nodes."""
    numbers: Counter[tuple[str, ...]] = Counter()
    for group in replacement.rescored:
        numbers[group.because] += len(group.pods)
    for causes, number in numbers.most_common():
        because = f", because of {TOGETHER.join(causes)}" if causes else ""
        yield paragraph(f"for {count(number, 'pod')} node scores change but the best nodes stay the same{because}")


def _build_newly_pending_section(changes: Sequence[PodChange], style: Style) -> Page:
    """Build the section on pods that become pending, grouped by workload, message and cause."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for change in changes:
        if change.change == "NewlyPending":
            groups.setdefault((change.workload, change.message, change.cause), []).append(change.pod)
    unplaced = [
        UnplacedPods(workload, verdict=CHANGES["NewlyPending"], message=message, pods=tuple(pods), cause=cause)
        for (workload, message, cause), pods in groups.items()
    ]
    return build_unplaced_section(unplaced, style)


def _build_zones_section(balance: Sequence[DomainBalance], compared: Sequence[str]) -> Page:
    """Build the section with a table and a plot of the zones before and after. Return () if there are no zones.

    The title says "before and after", unless `compared` names two schedulers whose results are compared instead.
    """
    if not balance:
        return ()
    resources = list(balance[0].requested)
    columns = [Column("zone", keep=True), Column("nodes", right=True), Column("pods", right=True)]
    columns += [Column(f"{resource} requested", right=True) for resource in resources]
    rows = tuple(_build_zone_row(domain) for domain in balance)
    pods = [PodCount(domain.domain, *domain.pods) for domain in balance]
    title = "Zones, before and after" if not compared else "Zones"
    return section(title, Table(tuple(columns), rows), *build_zone_plot(pods))


def _build_zone_row(domain: DomainBalance) -> tuple[Cell, ...]:
    """Build the table row of a zone: its nodes, pods and requested shares, each before and after."""
    counts = [_format_pair(f"{before:,}", f"{after:,}") for before, after in (domain.nodes, domain.pods)]
    shares = [_format_pair(f"{before:.1f}%", f"{after:.1f}%") for before, after in domain.requested.values()]
    return (domain.domain, *counts, *shares)


def _format_pair(before: str, after: str) -> str:
    """Format a value before and after. An unchanged value appears once."""
    return before if before == after else f"{before} → {after}"


def _build_moves_plot(changes: Sequence[PodChange]) -> tuple[Plot, ...]:
    """Plot how many pods leave and arrive at each node, for the nodes with the most moves."""
    moves = [change for change in changes if change.before != change.after]
    leaving = Counter(change.before for change in moves if change.before)
    arriving = Counter(change.after for change in moves if change.after)
    nodes = sorted({*leaving, *arriving}, key=lambda node: (-leaving[node] - arriving[node], node))
    amounts = {node: {"leave": leaving[node], "come": arriving[node]} for node in nodes[:MAX_PLACES]}
    return build_bar_plot("Pods leaving and arriving, by node", ("node", PODS), amounts, len(nodes))


def build_pending_pod_matrices(report: WhatIf) -> list[HtmlSection]:
    """Build the HTML matrices of nodes and plugins for the newly pending pods that are explained, and count the others.

    The report has them because `kschedctl explain` cannot be run for pods of a hypothetical cluster.
    """
    from kschedctl.commands.explain.html_widgets import build_matrices_of_explained  # noqa: PLC0415 - only for HTML

    pod_count = sum(change.change == "NewlyPending" for change in report.changes)
    title = "Nodes and plugins of each newly pending pod"
    # There is no other command that shows the matrices of the pods that are not explained.
    return build_matrices_of_explained(report.explained, pod_count, title=title, elsewhere="")
