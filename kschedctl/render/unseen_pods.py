"""Sections about pods that kube-scheduler does not see: those not created, and those held back elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.render.page import (
    Block,
    Cell,
    Command,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    count,
    limit_rows_by_style,
    paragraph,
)
from kschedctl.render.tables import Row, build_table
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.not_created import CreationFailure, NotCreated
from kschedctl.reports.remedy import Remedy, chain_commands
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import join_clauses, spell_age

WORKLOADS_SHOWN, FAILURES_SHOWN, COMMANDS_SHOWN = 25, 5, 3


def iter_not_created_lines(
    not_created: NotCreated | None, style: Style, other_reasons: Sequence[str] = ()
) -> Iterator[Paragraph | Command]:
    """Yield lines about the pods that a workload lacks: how many, why, and the fixes.

    `other_reasons` are further reasons why the workload has fewer pods than wanted. Each gets its own line.
    """
    if not_created is not None:
        yield from _iter_failure_lines(not_created, style)
    for reason in other_reasons:
        yield paragraph("No more pods:", reason)


def _iter_failure_lines(not_created: NotCreated, style: Style) -> Iterator[Paragraph | Command]:
    """Yield the lines about the failures to create a workload's pods, and then the fixes.

    Past failures take one line without fixes. Unless the style is wide, only the first FAILURES_SHOWN failures are
    described.
    """
    workload = Marked(not_created.workload, Tone.STRONG)
    if not_created.past:
        yield paragraph(workload, Marked("earlier:", Tone.FAINT), Marked(not_created.headline, Tone.FAINT))
        return
    yield paragraph(workload, Marked("Not created:", Tone.BAD), not_created.headline)
    shown, note = limit_rows_by_style(not_created.failures, style, FAILURES_SHOWN)
    for number, failure in enumerate(shown):
        if number == 0:  # its message is in the headline
            yield paragraph(Marked(_describe_failure_source(failure), Tone.FAINT), "")
        else:
            yield paragraph(Marked(f"{_describe_failure_source(failure)}:", Tone.FAINT), failure.message)
    if note:
        yield paragraph(Marked(note, Tone.FAINT))
    yield from _iter_fix_paragraphs([not_created])


def _iter_fix_paragraphs(workloads: Sequence[NotCreated]) -> Iterator[Paragraph | Command]:
    """Yield paragraphs with the workloads' fixes, and their commands. Equal fixes are shown once."""
    fixes = {(fix.words, fix.commands): fix for workload in workloads for fix in workload.fixes}
    for fix in fixes.values():
        yield paragraph(Marked("Fix:", Tone.STRONG), fix.words)
        if fix.edits:
            yield paragraph(Marked("in the manifest:", Tone.FAINT), "; ".join(fix.edits))
        yield from map(Command, chain_commands(fix.commands))


def build_not_created_section(workloads: Sequence[NotCreated], style: Style) -> Page:
    """Build a table of the workloads that lack pods, with the reasons, followed by fixes and commands.

    Unless the style is wide, only the first workloads and commands are shown.
    """
    columns = (Column("missing", right=True), Column("age", right=True), Column("workload, reason"))
    title = f"{count(len(workloads), 'workload')} with pods that could not be created"
    shown_workloads, _ = limit_rows_by_style(workloads, style, WORKLOADS_SHOWN)
    commands = [command for workload in shown_workloads for command in style.commands.get(workload.workload, ())]
    return (
        *build_table(workloads, columns, _build_workload_row, style, title=title, limit=WORKLOADS_SHOWN, full=False),
        *_iter_fix_paragraphs(shown_workloads),
        *map(Command, commands if style.wide else commands[:COMMANDS_SHOWN]),
    )


def _build_workload_row(not_created: NotCreated) -> Row:
    """Build the row of a workload that lacks pods."""
    missing = "" if not_created.missing is None else f"{not_created.missing:,}"
    why = Stack((Marked(not_created.workload, Tone.STRONG), Marked(not_created.headline, Tone.BAD)))
    return (missing, not_created.failures[0].age, why)


def _describe_failure_source(failure: CreationFailure) -> str:
    """Describe the source of a failure, as in `event FailedCreate of ReplicaSet shop/web-5d5f, 12 times`."""
    description = failure.by
    if failure.times > 1:
        description += f", {failure.times:,} times"
    if failure.age:
        last = "last " if failure.times > 1 else ""
        description += f", {last}{spell_age(failure.age)} ago"
    return description


ENTRIES_SHOWN = 25
TITLE = "Held back: kube-scheduler does not see these pods yet"


def build_held_back_section(waiting: Sequence[WaitingElsewhere], style: Style) -> Page:
    """Build the table of objects that hold pods back, each with its status, followed by the fixes of each object.

    Unless the style is wide, the table has at most ENTRIES_SHOWN rows.
    """
    columns = (Column("pods", right=True), Column("age", right=True), Column("object, what it waits for"))
    table = build_table(waiting, columns, _build_holder_row, style, title=TITLE, limit=ENTRIES_SHOWN, full=False)
    fixes: list[Block] = []
    for entry in waiting:
        if entry.fixes:
            fixes += (paragraph("For", Marked(entry.resource, Tone.STRONG)), *iter_admission_fix_lines(entry.fixes))
    return (*table, *fixes)


def build_held_back_lines(waiting: Sequence[WaitingElsewhere]) -> Page:
    """Build lines about the objects that hold back a single workload's pods, with the fixes of each object."""
    blocks: list[Paragraph | Command] = []
    for entry in waiting:
        blocks += map(paragraph, _iter_holder_lines(entry))
        blocks += iter_admission_fix_lines(entry.fixes)
    return tuple(blocks)


def iter_admission_fix_lines(fixes: Sequence[Remedy]) -> Iterator[Paragraph | Command]:
    """Yield a line for each fix for a Kueue Workload, with its drawbacks, followed by its commands.

    The line's label says whether the fix suffices, or that it is not verified because users have to fill in values.
    """
    for fix in fixes:
        if fix.needs_values:
            label = Marked("Not verified:", Tone.STRONG)
        else:
            label = Marked("Fix:" if fix.holds else "Not enough:", Tone.STRONG)
        if fix.drawbacks:
            yield paragraph(label, f"{fix.summary},", Marked(f"but {join_clauses(fix.drawbacks)}", Tone.WARNING))
        else:
            yield paragraph(label, fix.summary)
        yield from map(Command, chain_commands(fix.commands))


def _build_holder_row(entry: WaitingElsewhere) -> Row:
    """Build the row of an object that holds pods back."""
    return ("" if entry.pods is None else f"{entry.pods:,}", entry.age, Stack(tuple(_iter_holder_lines(entry))))


def _iter_holder_lines(entry: WaitingElsewhere) -> Iterator[Cell]:
    """Yield the lines about an object that holds pods back: its status, holders, details and conditions.

    Holders that the headline already names are left out.
    """
    tone = Tone.FAINT if entry.state is WaitingState.SUSPENDED else Tone.WARNING
    parents = f", of {', '.join(entry.part_of)}" if entry.part_of else ""
    yield Marked(f"{entry.resource}{parents}", Tone.STRONG)
    yield Marked(entry.headline, tone)
    yield from (Marked(holder, Tone.FAINT) for holder in entry.unnamed_holders)
    yield from (Marked(detail, Tone.FAINT) for detail in entry.details)
    yield from (Marked(condition.words, Tone.VERBATIM) for condition in entry.conditions)
