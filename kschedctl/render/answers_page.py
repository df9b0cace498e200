"""The pages of documents without a command: the answers about several clusters, and summaries."""

from __future__ import annotations

from kschedctl.api.copying import replace
from kschedctl.render.page import (
    Block,
    Bullets,
    Marked,
    Page,
    Paragraph,
    Style,
    Table,
    build_subsection,
    paragraph,
    with_tone,
)
from kschedctl.render.plots.plot import Plot
from kschedctl.render.renderers import build_page
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.report import Answers, Report
from kschedctl.text.counts import counted


def build_answers_page(report: Answers, style: Style) -> Page:
    """Build the page of several clusters' answers."""
    good, sentence = report.build_first_line()
    pages = {a.cluster: build_page(a.document, _choose_style(a.cluster, style)) for a in report.answers}
    rows = tuple(
        (
            answer.cluster,
            Marked("yes", Tone.GOOD) if answer.good else Marked("no", Tone.BAD),
            _find_first_paragraph(pages[answer.cluster]),
        )
        for answer in report.answers
    )
    columns = (Column("cluster", keep=True), Column("good"), Column("answer"))
    blocks = [_prefix_plot_title(name, block) for name, page in pages.items() for block in build_subsection(name, page)]
    verdict = Marked(good, Tone.GOOD if report.good else Tone.BAD)
    return (paragraph(verdict, sentence), Table(columns, rows), *blocks)


def _prefix_plot_title(name: str, block: Block) -> Block:
    """Put the cluster's name into a plot's title, because plots may be shown alone."""
    return replace(block, title=f"{name}: {block.title}") if isinstance(block, Plot) else block


def _find_first_paragraph(page: Page) -> str:
    """Return the text of the page's first paragraph, or ""."""
    first = next((block for block in page if isinstance(block, Paragraph)), None)
    return " ".join(with_tone(part).text for part in first.parts) if first else ""


def _choose_style(cluster: str, style: Style) -> Style:
    """Return the style with the commands about one of the clusters."""
    return replace(style, commands={"": style.commands.get(cluster, ())})


def build_summary_page(report: Report, style: Style) -> Page:
    """Build the page from the summary of a report."""
    summary = report.summary()
    figures = tuple(f"{name}: {number:,}" for name, number in summary.figures.items())
    pods = tuple(f"{counted(p.pods, 'pod')} such as {p.such_as}: {p.why}" for p in summary.pods)
    fixes = tuple(fix.words for fix in summary.fixes)
    items = (*figures, *pods, *fixes, *summary.advice, *summary.doubts)
    return (paragraph(Marked(summary.headline, Tone.STRONG)), *([Bullets(items)] if items else []))
