"""The page of Failures: can the cluster do without each one, the ranking of the worst, and what would not fit."""

from __future__ import annotations

from kschedctl.render.explanation import not_replayed_lines
from kschedctl.render.page import Cell, Column, Marked, Page, Style, Table, Tone, count, paragraph, section, shown_first
from kschedctl.render.simulation import SHOW_ALL, unplaced_section
from kschedctl.reports.failures import Failure, Failures

FAILURES_SHOWN = 20


def failures_page(report: Failures, style: Style) -> Page:
    """The verdict, the ranking, and the reasons of the worst."""
    unsafe = sum(not failure.safe for failure in report.failures)
    word = Marked("yes" if report.safe else "no", Tone.GOOD if report.safe else Tone.BAD)
    known = f"{len(report.failures):,} of {count(report.scenarios, 'loss', 'losses')}"
    told = f"interrupted after {known}" if report.interrupted else count(report.scenarios, "loss", "losses") + " tried"
    worst = report.failures[0] if report.failures else None
    reasons = unplaced_section(worst.reasons, style) if worst else ()
    return (
        paragraph(Marked(f"N-1 safe per {report.unit}:", Tone.STRONG), word, f"({told}, {unsafe:,} with consequences)"),
        *not_replayed_lines(report.not_replayed),
        *_ranking(report, style),
        *((paragraph("The worst,", Marked(f"{worst.name}:", Tone.STRONG)), *reasons) if worst and reasons else ()),
    )


def _ranking(report: Failures, style: Style) -> Page:
    if not report.failures:
        return ()
    shown, note = shown_first(report.failures, None if style.wide else FAILURES_SHOWN, SHOW_ALL)
    numbers = ("nodes", "displaced", "not scheduled", "evicted", "lost")
    columns = (Column(report.unit, keep=True), *(Column(name, right=True) for name in numbers))
    return section("The worst losses first", Table(columns, tuple(map(_row, shown)), note).without_empty_columns())


def _row(failure: Failure) -> tuple[Cell, ...]:
    bad = [Marked(f"{number:,}", Tone.BAD) if number else "0" for number in (failure.unplaced, failure.evicted)]
    lost = f"{failure.lost:,}" if failure.lost else ""
    return (failure.name, f"{len(failure.nodes):,}", f"{failure.displaced:,}", *bad, lost)
