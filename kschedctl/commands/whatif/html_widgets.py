"""The matrices in the HTML form of a what-if."""

from __future__ import annotations

from kschedctl.commands.explain.html_widgets import build_matrices_of_some
from kschedctl.commands.whatif.report import WhatIf
from kschedctl.render.html.sections import HtmlSection


def build_widgets(report: WhatIf) -> list[HtmlSection]:
    """Build a matrix for each kind of newly pending pods, which ``explain`` cannot show."""
    pods = sum(change.change == "NewlyPending" for change in report.changes)
    return build_matrices_of_some(
        report.explained, pods, title="Nodes and plugins, for each newly pending pod", elsewhere=""
    )
