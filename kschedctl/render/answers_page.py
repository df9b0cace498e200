"""The page of Answers: what is said of each cluster in a line, then each answer in full."""

from __future__ import annotations

from kschedctl.api.copying import replace
from kschedctl.render.page import Block, Marked, Page, Paragraph, Style, Table, build_subsection, paragraph, with_tone
from kschedctl.render.plots.plot import Plot
from kschedctl.render.renderers import build_page
from kschedctl.reports.answers import Answers
from kschedctl.reports.columns import Column, Tone


def answers_page(report: Answers, style: Style) -> Page:
    """How many are good, a line for each, and their pages."""
    good, sentence = report.first_line()
    pages = {a.cluster: build_page(a.document, _style_of(a.cluster, style)) for a in report.answers}
    rows = tuple(
        (
            answer.cluster,
            Marked("yes", Tone.GOOD) if answer.good else Marked("no", Tone.BAD),
            _first_line(pages[answer.cluster]),
        )
        for answer in report.answers
    )
    columns = (Column("cluster", keep=True), Column("good"), Column("answer"))
    blocks = [_of_cluster(name, block) for name, page in pages.items() for block in build_subsection(name, page)]
    verdict = Marked(good, Tone.GOOD if report.good else Tone.BAD)
    return (paragraph(verdict, sentence), Table(columns, rows), *blocks)


def _of_cluster(name: str, block: Block) -> Block:
    """Plots may be shown without what is around them."""
    return replace(block, title=f"{name}: {block.title}") if isinstance(block, Plot) else block


def _first_line(page: Page) -> str:
    first = next((block for block in page if isinstance(block, Paragraph)), None)
    return " ".join(with_tone(part).text for part in first.parts) if first else ""


def _style_of(cluster: str, style: Style) -> Style:
    """What can be typed about one cluster alone."""
    return replace(style, commands={"": style.commands.get(cluster, ())})
