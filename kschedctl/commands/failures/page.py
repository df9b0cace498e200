"""The page of Failures, and words shared with the page of Drain."""

from __future__ import annotations

from functools import partial

from kschedctl.commands.failures.report import Failure, Failures
from kschedctl.render.page import (
    Cell,
    Marked,
    Page,
    Style,
    build_subsection,
    count,
    names,
    paragraph,
)
from kschedctl.render.plots.plot import Plot, build_bar_plot, differ_in_total
from kschedctl.render.sections import (
    PODS,
    REPLAYED,
    build_caveats,
    build_next_section,
    build_order_section,
    build_pods_before_and_after,
    build_unplaced_section,
)
from kschedctl.render.tables import Row, build_table, number_columns
from kschedctl.render.unseen_pods import build_not_created_section
from kschedctl.reports.columns import Column, Tone

WORDS = {
    "lost": "lost for good",
    "unplaced": "fit nowhere else",
    "blocked": "cannot be evicted",
    "returned": "come back to the nodes",
    "evicted": "make room on other nodes",
}
"""The description of each number over several runs."""


# -- losses -----------------------------------------------------------------------------------------------------------


FAILURES_SHOWN = 20


def build_page(report: Failures, style: Style) -> Page:
    """Build the page with the verdict, the ranking, and the reasons of the worst failure."""
    question, answer, sentence = report.first_line()
    unsafe = not all(failure.safe for failure in report.failures)
    tone = Tone.WARNING if report.undecided or report.interrupted else Tone.GOOD
    worst = report.failures[0] if report.failures else None
    refused = build_not_created_section(worst.not_created, style) if worst and worst.not_created else ()
    reasons = (*refused, *build_unplaced_section(worst.reasons, style)) if worst else ()
    return (
        paragraph(Marked(question, Tone.STRONG), Marked(answer, Tone.BAD if unsafe else tone), sentence),
        *_list_outside(report),
        *build_caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
        *_build_ranking(report, style),
        *(build_subsection(f"The worst: {worst.name}", reasons) if worst and reasons else ()),
        *(build_pods_before_and_after(worst.zones, worst.nodes_changed, f" the loss of {worst.name}") if worst else ()),
        *(build_order_section(report.runs, worst.unplaced_over_runs, worst.in_no_order) if worst else ()),
        *build_next_section(style, REPLAYED),
    )


def _list_outside(report: Failures) -> Page:
    if not report.outside:
        return ()
    belong = "belongs" if len(report.outside) == 1 else "belong"
    nodes = count(len(report.outside), "node")
    word = Marked(f"{nodes} {belong} to no {report.unit.removeprefix('pair of ').rstrip('s')}:", Tone.WARNING)
    return (paragraph(word, f"{names(report.outside)}; they have no label for it, so no loss includes them"),)


def _build_ranking(report: Failures, style: Style) -> Page:
    """Build the table of failures. The number of nodes is left out if it is the same for all."""
    alike = len({len(failure.nodes) for failure in report.failures}) == 1
    columns = [Column(report.unit, keep=True)]
    columns += number_columns("nodes", "displaced", "not scheduled", "evicted", "lost")
    title, row = "Worst losses first", partial(_build_row, alike=alike)
    table = build_table(report.failures, columns, row, style, title=title, limit=FAILURES_SHOWN, full=False)
    return (*table, *_build_plot(report, style)) if table else ()


def _build_row(failure: Failure, alike: bool) -> Row:
    bad = [_format_number(failure, "unplaced", failure.unplaced), _format_number(failure, "evicted", failure.evicted)]
    nodes = "" if alike else f"{len(failure.nodes):,}"
    return (failure.name, nodes, f"{failure.displaced:,}", *bad, f"{failure.lost:,}" if failure.lost else "")


def _format_number(failure: Failure, name: str, number: int) -> Cell:
    text = str(failure.over_runs[name]) if failure.over_runs else f"{number:,}"
    return Marked(text, Tone.BAD) if number else text


def _build_plot(report: Failures, style: Style) -> tuple[Plot, ...]:
    """Build the plot of the worst failures. Equal bars are only drawn on request."""
    amounts = {
        failure.name: {"without a node": failure.unplaced, "evicted": failure.evicted, "lost for good": failure.lost}
        for failure in report.failures
        if failure.unplaced or failure.evicted or failure.lost
    }
    if not (style.plots or differ_in_total(amounts)):
        return ()
    title = f"Pods that the loss of a {report.unit} costs"
    return build_bar_plot(title, (report.unit, PODS), amounts, len(amounts), stacked=True)
