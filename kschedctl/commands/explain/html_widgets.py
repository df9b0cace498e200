"""What a report in the browser has besides its page: a matrix of nodes and plugins for each pod, a map of the nodes."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.commands.explain.html_matrix import matrices_section, matrix
from kschedctl.commands.explain.html_node_map import node_map
from kschedctl.commands.explain.pending_report import ExplainedPods, PendingPods
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.explain.reports import Explanations
from kschedctl.render.html.sections import HtmlSection


def explanation_widgets(report: Explanation) -> list[HtmlSection]:
    """The map and the matrix have every node that the scheduler would look at."""
    if not any(node.feasible or node.refusals for node in report.nodes):
        return []
    return [
        HtmlSection("Nodes", [("map", node_map(report))]),
        HtmlSection("Nodes and plugins", [("matrix", matrix(report).grid())]),
    ]


def explanations_widgets(report: Explanations) -> list[HtmlSection]:
    """A matrix for each pod."""
    return matrices_section(((explanation.pod,), explanation) for explanation in report.explanations)


def pending_widgets(report: PendingPods) -> list[HtmlSection]:
    """A matrix for pods alike, as far as they were explained in full."""
    return matrices_of_some(report.explained, sum(len(group.pods) for group in report.groups))


def matrices_of_some(explained: Sequence[ExplainedPods], pods: int, **titles: str) -> list[HtmlSection]:
    left_out = pods - sum(len(group.pods) for group in explained)
    return matrices_section(((group.pods, group.explanation) for group in explained), left_out, **titles)
