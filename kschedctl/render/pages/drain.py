"""The page of a Drain: whether the nodes come free, where their pods go, and who does not."""

from __future__ import annotations

from kschedctl.render.page import Bullets, Marked, Page, Paragraph, Style, count, first_rows, names, paragraph, section
from kschedctl.render.pages.extenders import extended_lines
from kschedctl.render.pages.over_runs import order_section, over_runs_section
from kschedctl.render.pages.plotted.places import before_and_after
from kschedctl.render.pages.sections import (
    REPLAYED,
    ROWS_SHOWN,
    evicted_section,
    headroom_section,
    interruption,
    left_out_lines,
    next_section,
    not_known_lines,
    search_lines,
    unplaced_section,
)
from kschedctl.render.tables import listed
from kschedctl.reports.columns import Tone
from kschedctl.reports.drain import Drain
from kschedctl.reports.unknown import doubt

WORDS = {
    "lost": "lost for good",
    "unplaced": "fit nowhere else",
    "blocked": "cannot be evicted",
    "evicted": "make room on other nodes",
}
"""A number over several runs -> how it is told."""


def drain_page(report: Drain, style: Style) -> Page:
    """All sections that have something to say."""
    return (
        *interruption(report.interrupted),
        _verdict(report),
        *left_out_lines(report.not_replayed, report.ignored),
        *extended_lines(report.extended),
        *not_known_lines(report.unknown),
        *search_lines(report.search_start),
        *_lost(report.lost, style),
        *listed(report.blocked, style, title="Cannot be evicted"),
        *unplaced_section(report.unplaced, style),
        *evicted_section(report.evicted, style),
        *listed(report.moved, style, title="Moved", full=False),
        *headroom_section(report.headroom),
        *before_and_after(report.zones, report.nodes_changed),
        *over_runs_section(report.runs, report.over_runs, WORDS),
        *order_section(report.runs, report.unplaced_over_runs, report.in_no_order),
        *next_section(style, REPLAYED),
    )


def _verdict(report: Drain) -> Paragraph:
    price = "Drained at a price:" if report.drained else "Cannot be drained:"
    if report.safe:
        word = Marked("Safe to drain:", Tone.WARNING if report.undecided else Tone.GOOD)
    elif report.interrupted and not report.blocked:
        word = Marked("Not drained yet:", Tone.WARNING)
    else:
        word = Marked(price, Tone.BAD)
    unplaced = sum(len(group.pods) for group in report.unplaced)
    numbers = (
        (len(report.lost), "pod is lost, which nobody makes again", "pods are lost, which nobody makes again"),
        (len(report.moved), "pod gets another node", "pods get another node"),
        (unplaced, "pod fits nowhere else", "pods fit nowhere else"),
        (len(report.blocked), "pod cannot be evicted", "pods cannot be evicted"),
        (len(report.evicted), "pod of other nodes is evicted", "pods of other nodes are evicted"),
        (report.untried, "pod was not tried", "pods were not tried"),
        (report.staying, "pod stays with its node", "pods stay with their nodes"),
    )
    told = ", ".join(count(number, one, many) for number, one, many in numbers if number) or "nothing runs there"
    return paragraph(word, Marked(names(report.nodes), Tone.STRONG), f"– {told}{doubt(report.unknown)}")


def _lost(lost: tuple[str, ...], style: Style) -> Page:
    if not lost:
        return ()
    shown, note = first_rows(lost, style, ROWS_SHOWN)
    bullets = Bullets((*shown, *([note] if note else ())))
    return section("Lost: no controller makes them again, and kubectl evicts them with --force only", bullets)
