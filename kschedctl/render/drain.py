"""The page of a Drain: whether the nodes come free, where their pods go, and who does not."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.explanation import not_replayed_lines
from kschedctl.render.page import (
    Bullets,
    Cell,
    Column,
    Marked,
    Page,
    Paragraph,
    Style,
    Table,
    Tone,
    count,
    paragraph,
    section,
    shown_first,
)
from kschedctl.render.simulation import ROWS_SHOWN, SHOW_ALL, evicted_section, headroom_section, names, unplaced_section
from kschedctl.reports.drain import BlockedPod, Drain, MovedPod


def drain_page(report: Drain, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *_verdict(report),
        *not_replayed_lines(report.not_replayed),
        *_blocked(report.blocked, style),
        *unplaced_section(report.unplaced, style),
        *evicted_section(report.evicted, style),
        *(section("Lost: nobody makes them anew", Bullets(report.lost)) if report.lost else ()),
        *_moved(report.moved, style),
        *headroom_section(report.headroom),
    )


def _verdict(report: Drain) -> Iterator[Paragraph]:
    if report.interrupted:
        yield paragraph(Marked("Interrupted:", Tone.WARNING), "this is what was known by then")
    if report.safe:
        word = Marked("Safe to drain:", Tone.GOOD)
    else:
        word = Marked("Drained at a price:" if report.drained else "Cannot be drained:", Tone.BAD)
    unplaced = sum(len(group.pods) for group in report.unplaced)
    numbers = (
        (len(report.moved), "pod gets another node", "pods get another node"),
        (unplaced, "pod fits nowhere else", "pods fit nowhere else"),
        (len(report.blocked), "pod cannot be evicted", "pods cannot be evicted"),
        (len(report.evicted), "pod of other nodes is evicted", "pods of other nodes are evicted"),
        (len(report.lost), "pod is lost", "pods are lost"),
        (report.staying, "pod stays with its node", "pods stay with their nodes"),
    )
    told = ", ".join(count(number, one, many) for number, one, many in numbers if number) or "nothing runs there"
    yield paragraph(word, Marked(names(report.nodes), Tone.STRONG), f"– {told}")


def _blocked(blocked: tuple[BlockedPod, ...], style: Style) -> Page:
    if not blocked:
        return ()
    shown, note = shown_first(blocked, None if style.wide else ROWS_SHOWN, SHOW_ALL)
    rows = tuple((pod.pod, pod.node, pod.why) for pod in shown)
    columns = (Column("pod", keep=True), Column("node", keep=True), Column("why"))
    return section("Cannot be evicted", Table(columns, rows, note))


def _moved(moved: tuple[MovedPod, ...], style: Style) -> Page:
    if not moved:
        return ()
    shown, note = shown_first(moved, None if style.wide else ROWS_SHOWN, SHOW_ALL)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (pod.pod, pod.source, pod.target, f"{pod.tied}" if pod.tied > 1 else "") for pod in shown
    )
    columns = (Column("pod", keep=True), Column("from", keep=True), Column("to", keep=True))
    tied = Column("equally good", right=True)
    return section("Moved", Table((*columns, tied), rows, note).without_empty_columns())
