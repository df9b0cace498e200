"""The page of PendingPods: all pending pods, grouped by cause."""

from __future__ import annotations

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
    build_unread_lines,
    build_upstream_fault_lines,
    mark_verdict,
)
from kschedctl.render.tables import Row, build_table, keep_row, number_columns
from kschedctl.render.unseen_pods import build_held_back_lines, build_held_back_section, build_not_created_section
from kschedctl.reports.columns import Column, Tone

GROUPS_SHOWN, WORKLOADS_SHOWN, ANSWERS_SHOWN = 25, 3, 3


def build_pending_page(report: PendingPods, style: Style) -> Page:
    """Build the page: pending pods by cause, creation failures, objects that wait elsewhere, and next commands."""
    pods = sum(len(group.pods) for group in report.groups)
    creation_failures = build_not_created_section(report.not_created, style)
    waiting_elsewhere = build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()
    if report.asked_about:
        return (*build_held_back_lines(report.waiting_elsewhere), *_build_nothing_waits_line(report))
    if not pods:
        tone = Tone.WARNING if report.undecided or waiting_elsewhere else Tone.GOOD
        nothing, where = report.build_first_line()
        elsewhere = build_next_section(style, "But elsewhere") if report.elsewhere else ()
        return (
            *creation_failures,
            paragraph(Marked(nothing, tone), where),
            *build_unread_lines(report.unknown),
            *waiting_elsewhere,
            *elsewhere,
        )
    (title,) = report.build_first_line()
    table = section(title, *_build_cause_table(report.groups, style), *_plot_causes(report, style))
    return (
        *table,
        *build_caveats(report.not_replayed, report.ignored, unknown=report.unknown),
        *build_upstream_fault_lines(report.upstream_faults),
        *creation_failures,
        *waiting_elsewhere,
        *build_extender_line(report.extended),
        *(build_growth_section(report.growth, style) if report.growth else ()),
        *(
            _build_next_commands_section(report.groups, style)
            if style.wide and style.width < UNFOLDED
            else build_next_section(style)
        ),
    )


def _build_nothing_waits_line(report: PendingPods) -> Page:
    """Build the line that says that the named objects wait for nothing."""
    return () if report.waiting_elsewhere else (paragraph(*report.build_first_line()),)


def _plot_causes(report: PendingPods, style: Style) -> tuple[Plot, ...]:
    """Plot the pending pods by cause, if plots are requested or the numbers differ a lot."""
    amounts: dict[str, dict[str, float]] = {}
    for group in report.groups:
        cause = group.cause if group.verdict == "Unschedulable" else f"{group.verdict}: {group.cause}"
        amounts.setdefault(cause, {"pods": 0})["pods"] += len(group.pods)
    amounts = dict(sorted(amounts.items(), key=lambda named: -named[1]["pods"]))
    if not (style.plots or differ_in_total(amounts)):
        return ()
    return build_bar_plot("Pending pods by cause", ("cause", "pods"), amounts, len(amounts))


def _build_next_commands_section(groups: tuple[PendingGroup, ...], style: Style) -> Page:
    """Build the list of next commands. They are not put into the table, because it might wrap them."""
    pods = (member.pod for group in groups for member in group.members)
    commands = [Command(command) for pod in pods for command in style.commands.get(pod, ())]
    return section("Next", *commands) if commands else ()


def _build_cause_table(groups: tuple[PendingGroup, ...], style: Style) -> Page:
    """Build the table of causes or, with -o wide, of pods."""
    if style.wide:
        columns = [*number_columns("pods"), Column("age"), Column("pod", keep=True), Column("workload")]
        columns += [Column("verdict", keep=True), Column("cause"), Column("next")]
        rows = [row for group in groups for row in _build_member_rows(group, style)]
        return build_table(rows, columns, keep_row, limit=None, full=False)
    columns = [*number_columns("pods"), Column("age"), Column("workload and cause")]
    row = partial(_build_group_row, style=style)
    return build_table(groups, columns, row, style, limit=GROUPS_SHOWN, full=False)


def _build_member_rows(group: PendingGroup, style: Style) -> Iterator[Row]:
    """Yield a row for each pod of the group."""
    verdict = mark_verdict(group.verdict)
    for position, member in enumerate(group.members):
        pods = "" if position else f"{len(group.pods):,}"
        following = "" if position or style.width < UNFOLDED else " ".join(style.commands.get(member.pod, ()))
        yield (pods, member.age, member.pod, member.workload, verdict, member.headline, Marked(following, Tone.CODE))


def _build_group_row(group: PendingGroup, style: Style) -> Row:
    """Build the row of a group: its workloads, and the answers for its pods below."""
    workloads = Marked(names(group.workloads, WORKLOADS_SHOWN), Tone.STRONG)
    return (f"{len(group.pods):,}", group.age, Stack((workloads, *_build_answer_lines(group, style))))


def _build_answer_lines(group: PendingGroup, style: Style) -> tuple[Cell, ...]:
    """Build the answer that all pods of a group share, or the cause and a few answers of single pods."""
    tone = VERDICT_TONES.get(group.verdict, Tone.WARNING)
    verdict = "" if group.verdict == "Unschedulable" else f"{describe_verdict(group.verdict)}: "
    answers = {member.headline: member for member in reversed(group.members)}
    if len(answers) == 1:
        return (Marked(f"{verdict}{group.members[0].headline}", tone),)
    distinct_members = [member for member in group.members if answers[member.headline] is member]
    shown, note = limit_rows_by_style(distinct_members, style, ANSWERS_SHOWN)
    lines = (_shorten_answer(member, group) for member in shown)
    return (Marked(f"{verdict}{group.cause}", tone), *lines, Marked(note, Tone.FAINT))


def _shorten_answer(member: PendingPod, group: PendingGroup) -> Marked:
    """Shorten a pod's answer by the cause, which the line above gives."""
    details = member.headline.removeprefix(group.cause).strip(": ")
    return Marked(f"{member.pod} {details}" if details.startswith("(") else f"{member.pod}: {details}", Tone.FAINT)
