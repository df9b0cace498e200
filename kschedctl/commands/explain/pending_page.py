"""The page of PendingPods: all pending pods grouped by what keeps most nodes from them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kschedctl.commands.explain.new_node_page import growth_in_brief
from kschedctl.commands.explain.pending_report import PendingGroup, PendingPod, PendingPods
from kschedctl.render.not_created import build_not_created_section
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
    build_not_known_lines,
    build_upstream_fault_lines,
    mark_verdict,
)
from kschedctl.render.tables import Row, build_table, number_columns, return_row
from kschedctl.render.waiting_elsewhere import build_held_back_lines, build_held_back_section
from kschedctl.reports.columns import Column, Tone

GROUPS_SHOWN, WORKLOADS_SHOWN, ANSWERS_SHOWN = 25, 3, 3


def pending_page(report: PendingPods, style: Style) -> Page:
    """The table of causes, then what to type next."""
    pods = sum(len(group.pods) for group in report.groups)
    lacking = build_not_created_section(report.not_created, style)
    waiting = build_held_back_section(report.waiting_elsewhere, style) if report.waiting_elsewhere else ()
    if report.asked_about:
        return (*build_held_back_lines(report.waiting_elsewhere), *_nothing_told(report))
    if not pods:
        tone = Tone.WARNING if report.undecided or waiting else Tone.GOOD
        nothing, where = report.first_line()
        elsewhere = build_next_section(style, "But elsewhere") if report.elsewhere else ()
        return (
            *lacking,
            paragraph(Marked(nothing, tone), where),
            *build_not_known_lines(report.unknown),
            *waiting,
            *elsewhere,
        )
    (title,) = report.first_line()
    table = section(title, *_causes(report.groups, style), *_plot(report, style))
    return (
        *table,
        *build_caveats(report.not_replayed, report.ignored, unknown=report.unknown),
        *build_upstream_fault_lines(report.upstream_faults),
        *lacking,
        *waiting,
        *build_extender_line(report.extended),
        *(growth_in_brief(report.growth, style) if report.growth else ()),
        *(_each_next(report.groups, style) if style.wide and style.width < UNFOLDED else build_next_section(style)),
    )


def _nothing_told(report: PendingPods) -> Page:
    """Build the line for objects that are named and that wait for nothing."""
    return () if report.waiting_elsewhere else (paragraph(*report.first_line()),)


def _plot(report: PendingPods, style: Style) -> tuple[Plot, ...]:
    amounts: dict[str, dict[str, float]] = {}
    for group in report.groups:
        cause = group.cause if group.verdict == "Unschedulable" else f"{group.verdict}: {group.cause}"
        amounts.setdefault(cause, {"pods": 0})["pods"] += len(group.pods)
    amounts = dict(sorted(amounts.items(), key=lambda named: -named[1]["pods"]))
    if not (style.plots or differ_in_total(amounts)):
        return ()
    return build_bar_plot("Pending pods by cause", ("cause", "pods"), amounts, len(amounts))


def _each_next(groups: tuple[PendingGroup, ...], style: Style) -> Page:
    """The command for each group, in one piece: a cell of a table might be folded."""
    pods = (member.pod for group in groups for member in group.members)
    commands = [Command(command) for pod in pods for command in style.commands.get(pod, ())]
    return section("Next", *commands) if commands else ()


def _causes(groups: tuple[PendingGroup, ...], style: Style) -> Page:
    """One row a cause: how many pods, how old the oldest is, whose they are; with ``-o wide`` one row a pod."""
    if style.wide:
        columns = [*number_columns("pods"), Column("age"), Column("pod", keep=True), Column("workload")]
        columns += [Column("verdict", keep=True), Column("cause"), Column("next")]
        rows = [row for group in groups for row in _members(group, style)]
        return build_table(rows, columns, return_row, limit=None, full=False)
    columns = [*number_columns("pods"), Column("age"), Column("workload and cause")]
    row = partial(_row, style=style)
    return build_table(groups, columns, row, style, limit=GROUPS_SHOWN, full=False)


def _members(group: PendingGroup, style: Style) -> Iterator[Row]:
    verdict = mark_verdict(group.verdict)
    for position, member in enumerate(group.members):
        pods = "" if position else f"{len(group.pods):,}"
        following = "" if position or style.width < UNFOLDED else " ".join(style.commands.get(member.pod, ()))
        yield (pods, member.age, member.pod, member.workload, verdict, member.headline, Marked(following, Tone.CODE))


def _row(group: PendingGroup, style: Style) -> Row:
    """The cause stands beneath the workloads, where a line has room for it."""
    whose = Marked(names(group.workloads, WORKLOADS_SHOWN), Tone.STRONG)
    return (f"{len(group.pods):,}", group.age, Stack((whose, *_answers(group, style))))


def _answers(group: PendingGroup, style: Style) -> tuple[Cell, ...]:
    """The one answer that holds for all pods; else the cause, and some answers, each for one pod."""
    tone = VERDICT_TONES.get(group.verdict, Tone.WARNING)
    verdict = "" if group.verdict == "Unschedulable" else f"{describe_verdict(group.verdict)}: "
    answers = {member.headline: member for member in reversed(group.members)}
    if len(answers) == 1:
        return (Marked(f"{verdict}{group.members[0].headline}", tone),)
    different = [member for member in group.members if answers[member.headline] is member]
    shown, note = limit_rows_by_style(different, style, ANSWERS_SHOWN)
    lines = (_answer(member, group) for member in shown)
    return (Marked(f"{verdict}{group.cause}", tone), *lines, Marked(note, Tone.FAINT))


def _answer(member: PendingPod, group: PendingGroup) -> Marked:
    """What is said of one pod, less the cause that stands above."""
    said = member.headline.removeprefix(group.cause).strip(": ")
    return Marked(f"{member.pod} {said}" if said.startswith("(") else f"{member.pod}: {said}", Tone.FAINT)
