"""What an audit tells of pending pods: a table by cause."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.page import Cell, Column, Marked, Page, Stack, Style, Table, Tone, first_rows, names
from kschedctl.render.pages.sections import ROWS_SHOWN
from kschedctl.reports.audit.pending import PendingSection, WaitingPods

TONES = {
    **dict.fromkeys(("stuck", "error", "unserved"), Tone.BAD),
    **dict.fromkeys(("crowded", "backoff", "turn"), Tone.GOOD),
}


def pending_blocks(section: PendingSection, style: Style) -> Page:
    """The causes, the gravest first."""
    if not section.waiting:
        return ()
    shown, note = first_rows(section.waiting, style, ROWS_SHOWN)
    columns = (Column("pods", right=True), Column("age"), Column("cause", keep=True), Column("workload and reason"))
    return (Table(columns, tuple(map(_row, shown)), note).without_empty_columns(),)


def _row(found: WaitingPods) -> tuple[Cell | Stack, ...]:
    cause = Marked(found.cause, TONES.get(found.cause, Tone.WARNING))
    return (f"{len(found.pods):,}", found.age, cause, Stack(tuple(_told(found))))


def _told(found: WaitingPods) -> Iterator[Cell]:
    yield Marked(names(found.workloads), Tone.STRONG)
    yield found.reason if found.cause in ("unschedulable", "gang", "error") else found.example
    for victim in found.victims:
        since = f" since {victim.asked}" if victim.asked else ""
        late = f", overdue for {victim.overdue}" if victim.overdue else ""
        yield Marked(f"{victim.pod} on {victim.node} terminates{since}{late}", Tone.BAD if late else Tone.FAINT)
