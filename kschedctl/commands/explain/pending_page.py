"""The page of PendingPods: all pending pods, grouped by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from kschedctl.commands.explain.new_node_page import build_growth_section
from kschedctl.commands.explain.pending_report import PendingGroup, PendingPod, PendingPods
from kschedctl.render.page import (
    UNFOLDED,
    Cell,
    Command,
    Marked,
    Page,
    Stack,
    Style,
    describe_verdict,
    limit_rows_by_style,
    names,
    paragraph,
    section,
)
from kschedctl.render.plots.plot import Plot, build_bar_plot, differ_in_total
from kschedctl.render.sections import (
    VERDICT_TONES,
    build_caveats,
    build_extender_line,
    build_next_section,
    build_unread_kind_lines,
    build_upstream_fault_lines,
    mark_verdict,
)
from kschedctl.render.tables import Row, build_table, keep_row, number_columns
from kschedctl.render.unseen_pods import build_held_back_lines, build_held_back_section, build_not_created_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.printable import put_reason_in_plain_words

GROUPS_SHOWN, WORKLOADS_SHOWN, ANSWERS_SHOWN = 25, 3, 3
AGED_UNTIL_NOW = "Ages are as of today, since the files do not say when the cluster was read."


def build_pending_page(report: PendingPods, style: Style) -> Page:
    """Build the page: pending pods by cause, creation failures, objects that wait elsewhere, and next commands.

    If the user named objects, the page is only about them.
    """
    if report.asked_about and report.waiting_elsewhere:
        return tuple(build_held_back_lines(report.waiting_elsewhere))
    if report.asked_about:
        return (paragraph(*report.build_headline_parts()),)
    if not any(group.pods for group in report.groups):
        return _build_nothing_pending_page(report, style)

    (title,) = report.build_headline_parts()
    table = section(title, *_build_cause_table(report.groups, style), *_plot_causes(report, style))
    is_single_pod = sum(len(group.pods) for group in report.groups) == 1
    explained = "this pod" if is_single_pod else "one of these pods"
    next_section = build_next_section(style, f"Next (explain {explained} in detail)")
    if style.wide and style.width < UNFOLDED:
        next_section = _build_next_commands_section(report.groups, style)
    ages = (paragraph(Marked(AGED_UNTIL_NOW, Tone.FAINT)),) if report.has_uncertain_ages else ()
    return (
        *table,
        *ages,
        *build_caveats(report.not_replayed, report.ignored, unknown=report.unknown),
        *build_upstream_fault_lines(report.upstream_faults),
        *build_not_created_section(report.not_created, style),
        *(build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()),
        *build_extender_line(report.extended),
        *(build_growth_section(report.growth, style) if report.growth else ()),
        *next_section,
    )


def _build_nothing_pending_page(report: PendingPods, style: Style) -> Page:
    """Build the page for the case that no pod is pending.

    It shows creation failures and objects that wait for other controllers. If pods are pending elsewhere, it also has a
    command that shows them.
    """
    is_uncertain = report.undecided or report.waiting_elsewhere
    are_pods_missing = any(not failure.past for failure in report.not_created)
    if are_pods_missing:
        tone = Tone.BAD
    elif is_uncertain:
        tone = Tone.WARNING
    else:
        tone = Tone.GOOD
    nothing, scope_text = report.build_headline_parts()
    return (
        paragraph(Marked(nothing, tone), scope_text),
        *build_not_created_section(report.not_created, style),
        *build_unread_kind_lines(report.unknown),
        *(build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()),
        *(build_next_section(style, "Next (explain the pending pods of all namespaces)") if report.elsewhere else ()),
    )


def _plot_causes(report: PendingPods, style: Style) -> tuple[Plot, ...]:
    """Build the plot of pending pods by cause.

    Unless plots are requested, return () if all causes have equally many pods.
    """
    pods_by_cause: Counter[str] = Counter()
    for group in report.groups:
        cause = group.cause if group.verdict == "Unschedulable" else f"{group.verdict}: {group.cause}"
        pods_by_cause[cause] += len(group.pods)
    amounts: dict[str, dict[str, float]] = {cause: {"pods": pods} for cause, pods in pods_by_cause.most_common()}
    if not (style.plots or differ_in_total(amounts)):
        return ()
    return build_bar_plot("Pending pods by cause", ("cause", "pods"), amounts, len(amounts))


def _build_next_commands_section(groups: tuple[PendingGroup, ...], style: Style) -> Page:
    """Build the list of next commands, or return () if there are none.

    They are not put into the table, because it might wrap them.
    """
    pods = (member.pod for group in groups for member in group.members)
    commands = [Command(command) for pod in pods for command in style.commands.get(pod, ())]
    return section("Next", *commands) if commands else ()


def _build_cause_table(groups: tuple[PendingGroup, ...], style: Style) -> Page:
    """Build the table of causes or, with -o wide, of pods. Priorities are shown if they differ."""
    priorities = {member.priority for group in groups for member in group.members}
    priority_column = number_columns("priority") if len(priorities) > 1 else []
    if style.wide:
        columns = [*number_columns("pods"), *priority_column, Column("age", right=True), Column("pod", keep=True)]
        columns += [Column("workload"), Column("verdict", keep=True), Column("cause"), Column("next")]
        rows = [
            row
            for group in groups
            for row in _iter_pod_rows_of_group(group, style, shows_priority=bool(priority_column))
        ]
        return build_table(rows, columns, keep_row, limit=None, full=False)
    columns = [*number_columns("pods"), *priority_column, Column("age", right=True), Column("workload and cause")]
    row = partial(_build_cause_row, style=style, shows_priority=bool(priority_column))
    return build_table(groups, columns, row, style, limit=GROUPS_SHOWN, full=False)


def _iter_pod_rows_of_group(group: PendingGroup, style: Style, *, shows_priority: bool) -> Iterator[Row]:
    """Yield a row for each pod of the group. Only the first row has the number of pods and the next command.

    The command is left out of pages with limited width, which would wrap it.
    """
    verdict = mark_verdict(group.verdict)
    for position, member in enumerate(group.members):
        pods = command = ""
        if position == 0:
            pods = f"{len(group.pods):,}"
            command = " ".join(style.commands.get(member.pod, ())) if style.width >= UNFOLDED else ""
        priority = (f"{member.priority:,}",) if shows_priority else ()
        answer = (verdict, member.headline, Marked(command, Tone.CODE))
        yield (pods, *priority, member.age, member.pod, member.workload, *answer)


def _format_priorities(group: PendingGroup) -> str:
    """Return the priority of the group's pods, or their lowest and highest one."""
    lowest = min((member.priority for member in group.members), default=group.priority)
    return f"{lowest:,}" if lowest == group.priority else f"{lowest:,} to {group.priority:,}"


def _build_cause_row(group: PendingGroup, style: Style, *, shows_priority: bool) -> Row:
    """Build the row of a group: its workloads, and the answers for its pods below."""
    priority = (_format_priorities(group),) if shows_priority else ()
    workloads = Marked(names(group.workloads, WORKLOADS_SHOWN), Tone.STRONG)
    return (f"{len(group.pods):,}", *priority, group.age, Stack((workloads, *_build_headline_lines(group, style))))


def _build_headline_lines(group: PendingGroup, style: Style) -> tuple[Cell, ...]:
    """Build the lines with the headline of a group's pods. If their headlines differ, start with the shared cause."""
    tone = VERDICT_TONES.get(group.verdict, Tone.WARNING)
    verdict = "" if group.verdict == "Unschedulable" else f"{describe_verdict(group.verdict)}: "
    distinct_members: dict[str, PendingPod] = {}
    for member in group.members:
        distinct_members.setdefault(member.headline, member)
    if len(distinct_members) == 1:
        return (Marked(f"{verdict}{group.members[0].headline}", tone),)
    shown, note = limit_rows_by_style(list(distinct_members.values()), style, ANSWERS_SHOWN, "reason")
    lines = (_build_pod_line(member, group.cause) for member in shown)
    return (Marked(f"{verdict}{put_reason_in_plain_words(group.cause)}", tone), *lines, Marked(note, Tone.FAINT))


def _build_pod_line(member: PendingPod, shared_cause: str) -> Marked:
    """Return the pod and its headline, without the shared cause if the headline begins or ends with it."""
    headline_without_cause = member.headline.removesuffix(f" ({shared_cause})")
    details = member.details or f": {headline_without_cause}"
    return Marked(f"{member.pod}{details}", Tone.FAINT)
