"""What an audit tells of the scheduling queue: a table by queue, with what gets the pods out of it."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.page import Cell, Column, Marked, Page, Stack, Style, Table, Tone, first_rows, names
from kschedctl.render.pages.sections import ROWS_SHOWN
from kschedctl.reports.audit.queue import PodsInQueue, QueueSection
from kschedctl.reports.wakes import RejectorReport

TONES = {"unknown": Tone.BAD, "activeQ": Tone.GOOD, "backoffQ": Tone.GOOD}


def queue_blocks(section: QueueSection, style: Style) -> Page:
    """The queues with their pods; beneath each what would wake the first of them."""
    if not section.queued:
        return ()
    shown, note = first_rows(section.queued, style, ROWS_SHOWN)
    columns = (
        Column("pods", right=True),
        Column("age"),
        Column("queue", keep=True),
        Column("which, and what wakes it"),
    )
    return (Table(columns, tuple(_row(each, style) for each in shown), note).without_empty_columns(),)


def _row(found: PodsInQueue, style: Style) -> tuple[Cell | Stack, ...]:
    queue = Marked(found.queue, TONES.get(found.queue, Tone.WARNING))
    return (f"{len(found.pods):,}", found.age, queue, Stack(tuple(_told(found, style))))


def _told(found: PodsInQueue, style: Style) -> Iterator[Cell]:
    yield Marked(names(found.pods), Tone.STRONG)
    yield found.headline
    if style.wide:
        ways = [f"{each.plugin}: {way.words}" for each in found.wakes for way in each.wake_ups]
    else:
        ways = [f"{each.plugin}: {each.wake_ups[0].words}{_more(each)}" for each in found.wakes if each.wake_ups]
    yield from (Marked(way, Tone.FAINT) for way in ways)


def _more(found: RejectorReport) -> str:
    others = len(found.wake_ups) - 1
    return f", or {others:,} other change{'s' * (others != 1)}" if others else ""
