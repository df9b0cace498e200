"""What an audit tells of pending pods: a table by cause."""

from __future__ import annotations

from kschedctl.render.page import Column, Marked, Page, Stack, Style, Table, Tone, first_rows, names
from kschedctl.render.pages.sections import ROWS_SHOWN
from kschedctl.reports.audit.pending import PendingSection, WaitingPods

TONES = {"stuck": Tone.BAD, "error": Tone.BAD, "unserved": Tone.BAD, "turn": Tone.GOOD}


def pending_blocks(section: PendingSection, style: Style) -> Page:
    """The causes, the gravest first."""
    if not section.waiting:
        return ()
    shown, note = first_rows(section.waiting, style, ROWS_SHOWN)
    columns = (Column("pods", right=True), Column("age"), Column("cause", keep=True), Column("workload and reason"))
    return (Table(columns, tuple(map(_row, shown)), note).without_empty_columns(),)


def _row(found: WaitingPods) -> tuple[str | Marked | Stack, ...]:
    whose = Marked(names(found.workloads), Tone.STRONG)
    cause = Marked(found.cause, TONES.get(found.cause, Tone.WARNING))
    return (f"{len(found.pods):,}", found.age, cause, Stack((whose, found.example)))
