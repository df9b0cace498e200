"""The matrices of a what-if's HTML form."""

from __future__ import annotations

from kschedctl.commands.explain.html_widgets import matrices_of_some
from kschedctl.commands.whatif.report import WhatIf
from kschedctl.render.html.sections import HtmlSection


def whatif_widgets(report: WhatIf) -> list[HtmlSection]:
    """A matrix for pods alike that wait and did not before; ``explain`` knows nothing of these."""
    pods = sum(change.change == "NewlyPending" for change in report.changes)
    return matrices_of_some(report.explained, pods, title="Nodes and plugins, for each newly pending pod", elsewhere="")
