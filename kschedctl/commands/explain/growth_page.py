"""The part of a Simulation about new nodes: of which pools, and who never gets one."""

from __future__ import annotations

from kschedctl.render.page import Bullets, Marked, Page, Paragraph, Style, paragraph, section
from kschedctl.render.tables import listed
from kschedctl.reports.columns import Tone
from kschedctl.reports.growth import NeverScheduled, NodeGrowth
from kschedctl.reports.provisioning import without_lists
from kschedctl.text.counts import counted, first_of


def growth_section(growth: NodeGrowth, style: Style) -> Page:
    """Doubts first, then nodes, then the pods without one."""
    never = listed(growth.never, style, {"pods": lambda never: first_of(never.pods)}, title="Never scheduled")
    return (*_doubts(growth), *listed(growth.pools, style, title="New nodes"), *never, _grounds(growth))


def growth_in_brief(growth: NodeGrowth, style: Style) -> Page:
    """New nodes, below a table that has kube-scheduler's words already."""
    without = f"; {counted(growth.without, 'pod')} never scheduled" if growth.without else ""
    told = f"{growth.sentence[0].upper()}{growth.sentence[1:]}{without}"
    never = Bullets(tuple(_why_never(pods, style) for pods in growth.never if pods.autoscaler or pods.causes))
    pools = listed(growth.pools, style, full=False)
    return section("Would new nodes come?", paragraph(told), *_doubts(growth), *pools, never, _grounds(growth))


def _why_never(never: NeverScheduled, style: Style) -> str:
    """Return what stops nodes for pods in our words, or in the autoscaler's if nothing else is known; all if wide."""
    words = never.autoscaler if style.wide else without_lists(never.autoscaler)
    said = (*never.causes, *([words] if style.wide or not never.causes else []))
    return f"{first_of(never.pods)}: {'; '.join(said)}"


def _doubts(growth: NodeGrowth) -> Page:
    return tuple(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in growth.doubts)


def _grounds(growth: NodeGrowth) -> Paragraph:
    loops = f"{growth.autoscaler}, after {counted(growth.loops, 'loop')}" if growth.loops else growth.autoscaler
    grounds = "; ".join((loops, *growth.sources))
    return paragraph(Marked(f"{grounds}.", Tone.FAINT))
