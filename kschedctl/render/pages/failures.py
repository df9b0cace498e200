"""The page of Failures: can the cluster do without each one, the ranking of the worst, and what would not fit."""

from __future__ import annotations

from kschedctl.render.page import Cell, Marked, Page, Style, Table, below, count, first_rows, names, paragraph, section
from kschedctl.render.pages.extenders import extended_lines
from kschedctl.render.pages.over_runs import order_section, spread_text
from kschedctl.render.pages.plotted.places import before_and_after, losses_plot
from kschedctl.render.pages.sections import (
    REPLAYED,
    left_out_lines,
    next_section,
    not_known_lines,
    search_lines,
    unplaced_section,
)
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.failures import Failure, Failures
from kschedctl.reports.unknown import doubt

FAILURES_SHOWN = 20


def failures_page(report: Failures, style: Style) -> Page:
    """The verdict, the ranking, and the reasons of the worst."""
    unsafe = sum(not failure.safe for failure in report.failures)
    tone = Tone.WARNING if report.undecided else Tone.GOOD
    unknown = Marked("unknown", Tone.WARNING) if report.interrupted else Marked("yes", tone)
    word = Marked("no", Tone.BAD) if unsafe else unknown
    known = f"{len(report.failures):,} of {count(report.scenarios, 'loss', 'losses')}"
    told = f"interrupted after {known}" if report.interrupted else count(report.scenarios, "loss", "losses") + " tried"
    worst = report.failures[0] if report.failures else None
    reasons = unplaced_section(worst.reasons, style) if worst else ()
    lost = 2 if report.unit.startswith("pair") else 1
    verdict = Marked(f"N-{lost} safe per {report.unit}:", Tone.STRONG)
    return (
        paragraph(verdict, word, f"({told}, {unsafe:,} with consequences){doubt(report.unknown)}"),
        *_outside(report),
        *left_out_lines(report.not_replayed, report.ignored),
        *extended_lines(report.extended),
        *not_known_lines(report.unknown),
        *search_lines(report.search_start),
        *_ranking(report, style),
        *(below(f"The worst: {worst.name}", reasons) if worst and reasons else ()),
        *(before_and_after(worst.zones, worst.nodes_changed, f" the loss of {worst.name}") if worst else ()),
        *(order_section(report.runs, worst.unplaced_over_runs, worst.in_no_order) if worst else ()),
        *next_section(style, REPLAYED),
    )


def _outside(report: Failures) -> Page:
    if not report.outside:
        return ()
    belong = "belongs" if len(report.outside) == 1 else "belong"
    nodes = count(len(report.outside), "node")
    word = Marked(f"{nodes} {belong} to no {report.unit.removeprefix('pair of ').rstrip('s')}:", Tone.WARNING)
    return (paragraph(word, f"{names(report.outside)}; no label tells one, so none of the losses takes them"),)


def _ranking(report: Failures, style: Style) -> Page:
    if not report.failures:
        return ()
    shown, note = first_rows(report.failures, style, FAILURES_SHOWN)
    headings = ("nodes", "displaced", "not scheduled", "evicted", "lost")
    columns = (Column(report.unit, keep=True), *(Column(name, right=True) for name in headings))
    alike = len({len(failure.nodes) for failure in report.failures}) == 1
    rows = tuple(_row(failure, alike) for failure in shown)
    table = Table(columns, rows, note).without_empty_columns()
    return section("The worst losses first", table, *losses_plot(report))


def _row(failure: Failure, alike: bool) -> tuple[Cell, ...]:
    """How many nodes it has is not told where all have as many."""
    bad = [_number(failure, "unplaced", failure.unplaced), _number(failure, "evicted", failure.evicted)]
    lost = f"{failure.lost:,}" if failure.lost else ""
    nodes = "" if alike else f"{len(failure.nodes):,}"
    return (failure.name, nodes, f"{failure.displaced:,}", *bad, lost)


def _number(failure: Failure, name: str, number: int) -> Cell:
    text = spread_text(failure.over_runs[name]) if failure.over_runs else f"{number:,}"
    return Marked(text, Tone.BAD) if number else text
