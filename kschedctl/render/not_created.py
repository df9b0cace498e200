"""What is told of pods that could not be created: lines at the head of an explanation, a section of an overview."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.render.page import (
    Command,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    count,
    first_rows,
    paragraph,
)
from kschedctl.render.tables import Row, table_of
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.not_created import CreationFailure, NotCreated

WORKLOADS_SHOWN, FAILURES_SHOWN, COMMANDS_SHOWN = 25, 5, 3


def not_created_lines(
    lacking: NotCreated | None, style: Style, fewer: Sequence[str] = ()
) -> Iterator[Paragraph | Command]:
    """How many pods a workload lacks and why, then who says so; of what is past a line. ``fewer``: what else is so."""
    if lacking is not None:
        yield from _lacking(lacking, style)
    for reason in fewer:
        yield paragraph("No more pods:", reason)


def _lacking(lacking: NotCreated, style: Style) -> Iterator[Paragraph | Command]:
    workload = Marked(lacking.workload, Tone.STRONG)
    if lacking.past:
        yield paragraph(workload, Marked("earlier:", Tone.FAINT), Marked(lacking.headline, Tone.FAINT))
        return
    yield paragraph(workload, Marked("Not created:", Tone.BAD), lacking.headline)
    shown, note = first_rows(lacking.failures, style, FAILURES_SHOWN)
    for number, failure in enumerate(shown):
        more = failure.message if number else ""  # the headline has that of the first
        yield paragraph(Marked(f"{_told(failure)}{':' if more else ''}", Tone.FAINT), more)
    if note:
        yield paragraph(Marked(note, Tone.FAINT))
    yield from _fixes([lacking])


def _fixes(workloads: Sequence[NotCreated]) -> Iterator[Paragraph | Command]:
    """Each once, as pods alike share theirs."""
    fixes = {(fix.words, fix.commands): fix for lacking in workloads for fix in lacking.fixes}
    for fix in fixes.values():
        yield paragraph(Marked("Fix:", Tone.STRONG), fix.words)
        yield from map(Command, fix.commands)


def not_created_section(workloads: Sequence[NotCreated], style: Style) -> Page:
    """The workloads that lack pods, each with the reason of now."""
    columns = (Column("missing", right=True), Column("age"), Column("workload and why"))
    title = f"{count(len(workloads), 'workload')} with pods that could not be created"
    shown, _ = first_rows(workloads, style, WORKLOADS_SHOWN)
    commands = [command for lacking in shown for command in style.commands.get(lacking.workload, ())]
    return (
        *table_of(workloads, columns, _row, style, title=title, limit=WORKLOADS_SHOWN, full=False),
        *_fixes(shown),
        *map(Command, commands if style.wide else commands[:COMMANDS_SHOWN]),
    )


def _row(lacking: NotCreated) -> Row:
    missing = "" if lacking.missing is None else f"{lacking.missing:,}"
    why = Stack((Marked(lacking.workload, Tone.STRONG), Marked(lacking.headline, Tone.BAD)))
    return (missing, lacking.failures[0].age, why)


def _told(failure: CreationFailure) -> str:
    """``event FailedCreate of ReplicaSet shop/web-5d5f, 12 times, last 3m ago``."""
    times = f", {failure.times:,} times" if failure.times > 1 else ""
    ago = f", {'last ' if times else ''}{failure.age} ago" if failure.age else ""
    return f"{failure.by}{times}{ago}"
