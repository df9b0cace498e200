"""A report cut up for the tabs at the right."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.page import Block, Heading, Page, Style, paragraph, parts
from kschedctl.render.pages.explanation import explanation_page
from kschedctl.render.pages.remedies import remedies_page
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.remedies import Remedies

WHY, NODES, SCORES, REMEDIES = "why", "nodes", "scores", "remedies"
SCORED = "Scores of "
"""How the heading of the scores begins."""


def answer_line(report: Explanation) -> str:
    return f"{report.verdict}: {report.headline}"


def explained(report: Explanation, style: Style) -> dict[str, Page]:
    """The pages of two tabs, less the answer, which stands above them."""
    why: list[Block] = []
    scores: list[Block] = []
    for title, under in parts(explanation_page(report, style)[1:]):
        tab = scores if title.startswith(SCORED) else why
        tab += [Heading(title), *under] if title else under
    return {WHY: tuple(why), SCORES: tuple(scores) or (paragraph("No node was scored: none fits"),)}


def remedied(report: Remedies, style: Style) -> Page:
    return remedies_page(report, style)[1:] or (paragraph("There is nothing to mend"),)


def node_rows(report: Explanation) -> Iterator[tuple[str, str, str]]:
    """Name, answer and score of each node, the best first."""
    for node in report.nodes:
        if node.feasible or node.refusals:
            why = "fits" if node.feasible else f"{node.refusals[0].plugin}: {node.refusals[0].reason}"
            yield node.name, why, "" if node.total is None else f"{node.total:,}"
