"""The matrices of nodes and plugins in the HTML form of a simulation."""

from __future__ import annotations

from kschedctl.commands.explain.html_widgets import build_matrices_of_some
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.html.sections import HtmlSection


def build_simulation_widgets(report: SimulationReport) -> list[HtmlSection]:
    """Build a matrix of nodes and plugins for each kind of unplaced pod."""
    title = "Nodes and plugins, for each pod that is not scheduled"
    return build_matrices_of_some(report.explained, report.unplaced, title=title, elsewhere="")
