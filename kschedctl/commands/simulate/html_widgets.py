"""The matrices of a simulation's HTML form."""

from __future__ import annotations

from kschedctl.commands.explain.html_widgets import build_matrices_of_some
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.html.sections import HtmlSection


def simulation_widgets(report: SimulationReport) -> list[HtmlSection]:
    """A matrix for pods alike without a node."""
    title = "Nodes and plugins, for each pod that is not scheduled"
    return build_matrices_of_some(report.explained, report.unplaced, title=title, elsewhere="")
