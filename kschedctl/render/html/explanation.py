"""Explanations in the browser: a matrix of nodes and plugins for each pod."""

from __future__ import annotations

from kschedctl.render.html.matrix import matrices_section, matrix
from kschedctl.render.html.sections import HtmlSection
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import Explanations
from kschedctl.reports.pending import PendingPods


def explanation_widgets(report: Explanation) -> list[HtmlSection]:
    """The matrix has every node that the scheduler would look at."""
    if not any(node.feasible or node.refusals for node in report.nodes):
        return []
    return [HtmlSection("Nodes and plugins", [("grid", matrix(report).grid())])]


def explanations_widgets(report: Explanations) -> list[HtmlSection]:
    """A matrix for each pod."""
    return matrices_section(((each.pod,), each) for each in report.explanations)


def pending_widgets(report: PendingPods) -> list[HtmlSection]:
    """A matrix for pods alike, as far as they were explained in full."""
    explained = [(each.pods, each.explanation) for each in report.explained]
    pods = sum(len(group.pods) for group in report.groups)
    return matrices_section(explained, pods - sum(len(alike) for alike, _ in explained))
