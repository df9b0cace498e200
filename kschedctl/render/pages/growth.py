"""The part of a Simulation about new nodes: of which pools, and who never gets one."""

from __future__ import annotations

from kschedctl.render.page import Marked, Page, Style, paragraph
from kschedctl.render.tables import listed
from kschedctl.reports.columns import Tone
from kschedctl.reports.growth import NodeGrowth
from kschedctl.text.counts import counted, first_of


def growth_section(growth: NodeGrowth, style: Style) -> Page:
    """Doubts first, then nodes, then the pods without one."""
    loops = f"{growth.autoscaler}, after {counted(growth.loops, 'loop')}" if growth.loops else growth.autoscaler
    grounds = "; ".join((loops, *growth.sources))
    return (
        *(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in growth.doubts),
        *listed(growth.pools, style, title="New nodes"),
        *listed(growth.never, style, {"pods": lambda never: first_of(never.pods)}, title="Never scheduled"),
        paragraph(Marked(f"{grounds}.", Tone.FAINT)),
    )
