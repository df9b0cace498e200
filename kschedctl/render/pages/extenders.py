"""The section of a page that tells which extenders were asked what, and what came of it."""

from __future__ import annotations

from kschedctl.render.page import Cell, Marked, Page, Stack, Style, Table, count, paragraph, section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.explanation import Explanation, ExtenderCallReport

NAMED = 3


def extended_lines(extended: tuple[str, ...]) -> Page:
    """A line with what to know of what extenders that were asked answered."""
    return (paragraph(Marked("note:", Tone.WARNING), "; ".join(extended)),) if extended else ()


def extenders_section(report: Explanation, style: Style) -> Page:
    """A row for each call, in order; and who would bind the pod."""
    binding = (paragraph("Not the scheduler but an extender would bind it:", report.binder),) if report.binder else ()
    if not report.calls:
        return binding
    errors = {(error.extender, error.verb): error.error for error in report.extender_errors}
    rows = tuple(_call(call, report, errors.get((call.extender, call.verb), ""), style) for call in report.calls)
    columns = [Column("extender", keep=True), Column("asked"), Column("answer")]
    if style.narrow:
        columns = [Column("extender, asked"), Column("answer")]
    return (*section("Extenders", Table(tuple(columns), rows)), *binding)


def _call(call: ExtenderCallReport, report: Explanation, error: str, style: Style) -> tuple[Cell | Stack, ...]:
    asked = f"{call.verb}, {count(len(call.nodes), 'node')}{' in full' if call.full else ''}"
    answer: Cell = Marked(error, Tone.BAD) if error else _answer(call, report)
    if style.narrow:
        return (Stack((call.extender, Marked(f"  {asked}", Tone.FAINT))), answer)
    return (call.extender, asked, answer)


def _answer(call: ExtenderCallReport, report: Explanation) -> str:
    """What it said of these nodes."""
    refused = report.extender_refusals.get(call.extender, {})
    told = [f"{node}: {refused[node] or 'no reason given'}" for node in call.nodes if node in refused]
    if told:
        return f"refuses {'; '.join(told[:NAMED])}" + (f" and {len(told) - NAMED:,} more" * (len(told) > NAMED))
    return "answered"
