"""The pages of Drain and Failures: whether nodes come free or can be lost, where their pods go, and who has none."""

from __future__ import annotations

from functools import partial

from kschedctl.render.page import (
    Bullets,
    Cell,
    Marked,
    Page,
    Paragraph,
    Style,
    below,
    count,
    first_rows,
    names,
    paragraph,
    section,
)
from kschedctl.render.pages.sections import (
    REPLAYED,
    before_and_after,
    caveats,
    evicted_section,
    headroom_section,
    interruption,
    losses_plot,
    next_section,
    order_section,
    over_runs_section,
    spread_text,
    unplaced_section,
)
from kschedctl.render.tables import ROWS_SHOWN, Row, listed, numbers, table_of
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.drain import Drain
from kschedctl.reports.failures import Failure, Failures
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
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
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
    price = "Drained, with disruption:" if report.drained else "Cannot be drained:"
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


# -- losses -----------------------------------------------------------------------------------------------------------


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
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown, report.search_start),
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
    """How many nodes a loss takes is not told where all take as many."""
    alike = len({len(failure.nodes) for failure in report.failures}) == 1
    columns = [Column(report.unit, keep=True)]
    columns += numbers("nodes", "displaced", "not scheduled", "evicted", "lost")
    title, row = "The worst losses first", partial(_failure, alike=alike)
    table = table_of(report.failures, columns, row, style, title=title, limit=FAILURES_SHOWN, full=False)
    return (*table, *losses_plot(report)) if table else ()


def _failure(failure: Failure, alike: bool) -> Row:
    bad = [_number(failure, "unplaced", failure.unplaced), _number(failure, "evicted", failure.evicted)]
    nodes = "" if alike else f"{len(failure.nodes):,}"
    return (failure.name, nodes, f"{failure.displaced:,}", *bad, f"{failure.lost:,}" if failure.lost else "")


def _number(failure: Failure, name: str, number: int) -> Cell:
    text = spread_text(failure.over_runs[name]) if failure.over_runs else f"{number:,}"
    return Marked(text, Tone.BAD) if number else text
