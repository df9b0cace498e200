"""The page of Explanations: a line for each pod, then in full those that do not get a node."""

from __future__ import annotations

from kschedctl.render.page import Cell, Marked, Page, Style, Table, below, paragraph
from kschedctl.render.pages.explanation import TONES, explanation_page
from kschedctl.render.pages.extenders import extended_lines
from kschedctl.render.pages.sections import left_out_lines
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import FINE, Explanations
from kschedctl.reports.unknown import doubt


def explanations_page(report: Explanations, style: Style) -> Page:
    """How many would be scheduled, a line for each, and the pages of the others; of all with ``-o wide``."""
    number = len(report.explanations)
    fine = sum(each.verdict in FINE for each in report.explanations)
    tone = Tone.GOOD if fine == number else Tone.BAD
    told = paragraph(
        Marked(f"{fine:,} of {number:,} pods", tone),
        "have a node or would get one, each by itself" + doubt(report.unknown),
    )
    columns = (Column("pod", keep=True), Column("verdict", keep=True), Column("where"), Column("asked about"))
    table = Table(columns, tuple(map(_row, report.explanations))).without_empty_columns()
    full = [each for each in report.explanations if style.wide or each.verdict not in FINE]
    pages = [below(each.stands_for or each.pod, explanation_page(each, style)) for each in full]
    return (
        told,
        *left_out_lines(report.not_replayed, report.ignored),
        *extended_lines(report.extended),
        table,
        *(block for page in pages for block in page),
    )


def _row(each: Explanation) -> tuple[Cell, ...]:
    """Why one is not scheduled is on its page."""
    verdict = Marked(each.verdict, TONES.get(each.verdict, Tone.WARNING))
    return (
        each.pod,
        verdict,
        each.headline.removeprefix("would be scheduled: ") if each.verdict in FINE else "",
        Marked(each.stands_for, Tone.FAINT),
    )
