"""The page of a Drain."""

from __future__ import annotations

from kschedctl.commands.drain.report import Drain
from kschedctl.commands.failures.page import NUMBER_DESCRIPTIONS
from kschedctl.render.not_created import build_not_created_section
from kschedctl.render.page import Bullets, Marked, Page, Paragraph, Style, limit_rows_by_style, paragraph, section
from kschedctl.render.sections import (
    REPLAYED,
    build_caveats,
    build_headroom_section,
    build_interruption,
    build_next_section,
    build_order_section,
    build_pods_before_and_after,
    build_preempted_section,
    build_runs_section,
    build_unplaced_section,
)
from kschedctl.render.tables import ROWS_SHOWN, build_struct_table
from kschedctl.reports.columns import Tone


def build_page(report: Drain, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *build_interruption(report.interrupted),
        _build_verdict(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_list_lost(report.lost, style),
        *_list_returned(report.returned, style),
        *(build_not_created_section(report.not_created, style) if report.not_created else ()),
        *build_struct_table(report.blocked, style, title="Cannot be evicted"),
        *build_unplaced_section(report.unplaced, style),
        *build_preempted_section(report.evicted, style, report.chain),
        *build_struct_table(report.moved, style, title="Moved", full=False),
        *build_headroom_section(report.headroom),
        *build_pods_before_and_after(report.zones, report.nodes_changed),
        *build_runs_section(report.runs, report.over_runs, NUMBER_DESCRIPTIONS),
        *build_order_section(report.runs, report.unplaced_over_runs, report.in_no_order),
        *build_next_section(style, REPLAYED),
    )


def _build_verdict(report: Drain) -> Paragraph:
    verdict, nodes, sentence = report.first_line()
    tone = Tone.BAD if report.blocked or not report.interrupted else Tone.WARNING
    if report.safe:
        tone = Tone.WARNING if report.undecided else Tone.GOOD
    return paragraph(Marked(verdict, tone), Marked(nodes, Tone.STRONG), sentence)


def _list_lost(lost: tuple[str, ...], style: Style) -> Page:
    return _list_pods("Lost: no controller makes them again, and kubectl evicts them with --force only", lost, style)


def _list_returned(returned: tuple[str, ...], style: Style) -> Page:
    return _list_pods("Come back to the nodes, as they tolerate that these are cordoned", returned, style)


def _list_pods(title: str, pods: tuple[str, ...], style: Style) -> Page:
    if not pods:
        return ()
    shown, note = limit_rows_by_style(pods, style, ROWS_SHOWN)
    return section(title, Bullets((*shown, *([note] if note else ()))))
