"""What a report in the browser has besides its page: a matrix of nodes and plugins for each pod, a map of the nodes."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.render.html.matrix import matrices_section, matrix
from kschedctl.render.html.node_map import node_map
from kschedctl.render.html.sections import HtmlSection
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import Explanations
from kschedctl.reports.pending import ExplainedPods, PendingPods
from kschedctl.reports.simulation import SimulationReport
from kschedctl.reports.whatif import WhatIf


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


def whatif_widgets(report: WhatIf) -> list[HtmlSection]:
    """A matrix for pods alike that wait and did not before; ``explain`` knows nothing of these."""
    pods = sum(change.change == "NewlyPending" for change in report.changes)
    return matrices_of_some(report.explained, pods, title="Nodes and plugins, for each newly pending pod", elsewhere="")


def simulation_widgets(report: SimulationReport) -> list[HtmlSection]:
    """A matrix for pods alike without a node."""
    title = "Nodes and plugins, for each pod that is not scheduled"
    return matrices_of_some(report.explained, report.unplaced, title=title, elsewhere="")


def matrices_of_some(explained: Sequence[ExplainedPods], pods: int, **titles: str) -> list[HtmlSection]:
    left_out = pods - sum(len(group.pods) for group in explained)
    return matrices_section(((group.pods, group.explanation) for group in explained), left_out, **titles)
