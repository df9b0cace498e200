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
    """Build the page for the answers about several clusters: an overview table, then each cluster's page."""
    columns = (Column("cluster", keep=True), Column("good"), Column("answer"))
    rows = []
    details: list[Block] = []
    for answer in report.answers:
        page = build_page(answer.document, _choose_style(answer.cluster, style))
        good = Marked("yes", Tone.GOOD) if answer.good else Marked("no", Tone.BAD)
        rows.append((answer.cluster, good, _get_first_paragraph_text(page)))
        details += [_prefix_plot_title(answer.cluster, block) for block in build_subsection(answer.cluster, page)]
    headline, sentence = report.build_headline_parts()
    verdict = Marked(headline, Tone.GOOD if report.good else Tone.BAD)
    return (paragraph(verdict, sentence), Table(columns, tuple(rows)), *details)


def _prefix_plot_title(name: str, block: Block) -> Block:
    """Put the cluster's name into a plot's title, because plots may be shown without their page."""
    return replace(block, title=f"{name}: {block.title}") if isinstance(block, Plot) else block


def _get_first_paragraph_text(page: Page) -> str:
    """Return the text of the page's first paragraph without its tones, or "" if the page has no paragraph."""
    for block in page:
        if isinstance(block, Paragraph):
            marked_parts = map(with_tone, block.parts)  # some parts are plain texts
            return " ".join(part.text for part in marked_parts)
    return ""


def _choose_style(cluster: str, style: Style) -> Style:
    """Return the style with the commands about one of the clusters."""
    return replace(style, commands={"": style.commands.get(cluster, ())})


def build_summary_page(report: Report, style: Style) -> Page:
    """Build the page for a report's summary: its headline, then a list of figures, pods, fixes and doubts."""
    summary = report.summary()
    items = [f"{name}: {number:,}" for name, number in summary.figures.items()]
    items += [f"{counted(group.pods, 'pod')} such as {group.such_as}: {group.why}" for group in summary.pods]
    items += [fix.words for fix in summary.fixes]
    items += [*summary.advice, *summary.doubts]
    headline = paragraph(Marked(summary.headline, Tone.STRONG))
    return (headline, Bullets(tuple(items))) if items else (headline,)
