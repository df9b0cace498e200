"""The page of a drain."""

from __future__ import annotations

from kschedctl.commands.drain.report import Drain
from kschedctl.commands.failures.page import WORDS
from kschedctl.render.not_created import not_created_section
from kschedctl.render.page import Bullets, Marked, Page, Paragraph, Style, first_rows, paragraph, section
from kschedctl.render.sections import (
    REPLAYED,
    before_and_after,
    caveats,
    evicted_section,
    headroom_section,
    interruption,
    next_section,
    order_section,
    over_runs_section,
    unplaced_section,
)
from kschedctl.render.tables import ROWS_SHOWN, listed
from kschedctl.reports.columns import Tone


def drain_page(report: Drain, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *interruption(report.interrupted),
        _verdict(report),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_lost(report.lost, style),
        *_returned(report.returned, style),
        *(not_created_section(report.not_created, style) if report.not_created else ()),
        *listed(report.blocked, style, title="Cannot be evicted"),
        *unplaced_section(report.unplaced, style),
        *evicted_section(report.evicted, style, report.chain),
        *listed(report.moved, style, title="Moved", full=False),
        *headroom_section(report.headroom),
        *before_and_after(report.zones, report.nodes_changed),
        *over_runs_section(report.runs, report.over_runs, WORDS),
        *order_section(report.runs, report.unplaced_over_runs, report.in_no_order),
        *next_section(style, REPLAYED),
    )


def _verdict(report: Drain) -> Paragraph:
    verdict, nodes, sentence = report.first_line()
    tone = Tone.BAD if report.blocked or not report.interrupted else Tone.WARNING
    if report.safe:
        tone = Tone.WARNING if report.undecided else Tone.GOOD
    return paragraph(Marked(verdict, tone), Marked(nodes, Tone.STRONG), sentence)


def _lost(lost: tuple[str, ...], style: Style) -> Page:
    return _named("Lost: no controller makes them again, and kubectl evicts them with --force only", lost, style)


def _returned(returned: tuple[str, ...], style: Style) -> Page:
    return _named("Come back to the nodes, as they tolerate that these are cordoned", returned, style)


def _named(title: str, pods: tuple[str, ...], style: Style) -> Page:
    if not pods:
        return ()
    shown, note = first_rows(pods, style, ROWS_SHOWN)
    return section(title, Bullets((*shown, *([note] if note else ()))))
