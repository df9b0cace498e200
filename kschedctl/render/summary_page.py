"""The page of answers without a command: the first line and the contents of the summary."""

from __future__ import annotations

from kschedctl.render.page import Bullets, Marked, Page, Style, paragraph
from kschedctl.reports.columns import Tone
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted


def build_summary_page(report: Report, style: Style) -> Page:
    """Build the page from the summary of a report."""
    summary = report.summary()
    figures = tuple(f"{name}: {number:,}" for name, number in summary.figures.items())
    pods = tuple(f"{counted(p.pods, 'pod')} such as {p.such_as}: {p.why}" for p in summary.pods)
    fixes = tuple(fix.words for fix in summary.fixes)
    items = (*figures, *pods, *fixes, *summary.advice, *summary.doubts)
    return (paragraph(Marked(summary.headline, Tone.STRONG)), *([Bullets(items)] if items else []))
