"""Texts about objects that hold pods back from kube-scheduler: a section of overviews, and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.render.page import Cell, Marked, Page, Stack, Style, paragraph
from kschedctl.render.tables import Row, build_table
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState

ENTRIES_SHOWN = 25
TITLE = "Waiting elsewhere: kube-scheduler does not see these pods yet"


def build_held_back_section(waiting: Sequence[WaitingElsewhere], style: Style) -> Page:
    """Build the table of objects that hold pods back, each with its status."""
    columns = (Column("pods", right=True), Column("age"), Column("what, and what it waits for"))
    return build_table(waiting, columns, _build_row, style, title=TITLE, limit=ENTRIES_SHOWN, full=False)


def build_held_back_lines(waiting: Sequence[WaitingElsewhere]) -> Page:
    """Build lines about a single object, or about the few that hold a workload back."""
    return tuple(paragraph(cell) for entry in waiting for cell in _iter_cells(entry))


def _build_row(entry: WaitingElsewhere) -> Row:
    """Return the row of an object."""
    return ("" if entry.pods is None else f"{entry.pods:,}", entry.age, Stack(tuple(_iter_cells(entry))))


def _iter_cells(entry: WaitingElsewhere) -> Iterator[Cell]:
    """Yield the lines about an object."""
    tone = Tone.FAINT if entry.state is WaitingState.SUSPENDED else Tone.WARNING
    of = f", of {', '.join(entry.part_of)}" if entry.part_of else ""
    yield Marked(f"{entry.resource}{of}", Tone.STRONG)
    yield Marked(entry.headline, tone)
    yield from (Marked(holder, Tone.FAINT) for holder in entry.holders if holder not in entry.headline)
    yield from (Marked(detail, Tone.FAINT) for detail in entry.details)
    yield from (Marked(condition.words, Tone.VERBATIM) for condition in entry.conditions)
