"""The page of PendingPods: all pending pods grouped by what keeps them pending."""

from __future__ import annotations

from kschedctl.render.explanation import TONES
from kschedctl.render.page import (
    Cell,
    Column,
    Command,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    Tone,
    count,
    first_rows,
    paragraph,
    section,
)
from kschedctl.render.sections import next_section, not_known_lines, not_replayed_lines
from kschedctl.reports.pending import PendingGroup, PendingPods
from kschedctl.reports.unknown import doubt

GROUPS_SHOWN, EXAMPLES_SHOWN = 25, 2


def pending_page(report: PendingPods, style: Style) -> Page:
    """The table of causes, then what to type next."""
    pods = sum(len(group.pods) for group in report.groups)
    if not pods:
        tone = Tone.WARNING if report.undecided else Tone.GOOD
        nothing = paragraph(Marked("Nothing is pending", tone), report.scope + doubt(report.unknown))
        return (nothing, *(section("But elsewhere", *map(Command, report.hints)) if report.hints else ()))
    title = f"{count(pods, 'pod')} pending {report.scope}, {count(len(report.groups), 'cause')}{doubt(report.unknown)}"
    hints = report.hints or (report.groups[0].next,)
    table = section(title, _table(report.groups, style))
    return (*not_replayed_lines(report.not_replayed), *not_known_lines(report.unknown), *table, *next_section(hints))


def _table(groups: tuple[PendingGroup, ...], style: Style) -> Table:
    shown, note = first_rows(groups, style, GROUPS_SHOWN)
    columns = [Column("pods", right=True), Column("verdict", keep=True), Column("cause")]
    columns += [] if style.narrow else [Column("for example", keep=True)]
    columns += [Column("next")] if style.wide and not style.narrow else []
    return Table(tuple(columns), tuple(_row(group, style) for group in shown), note)


def _row(group: PendingGroup, style: Style) -> tuple[Cell | Stack, ...]:
    """One row, the examples beside the cause; or beneath it where there is no room."""
    some = group.pods if style.wide else group.pods[:EXAMPLES_SHOWN]
    examples = ", ".join(some) + (", …" if len(some) < len(group.pods) else "")
    verdict = Marked(group.verdict, TONES.get(group.verdict, Tone.WARNING))
    pods = f"{len(group.pods):,}"
    if style.narrow:
        return (pods, verdict, Stack((group.cause, Marked(examples, Tone.FAINT))))
    return (pods, verdict, group.cause, examples, *([Marked(group.next, Tone.CODE)] if style.wide else []))
