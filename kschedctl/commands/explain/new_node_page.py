"""The sections about nodes that an autoscaler would add, for one pod and for all pending pods."""

from __future__ import annotations

from kschedctl.render.page import Bullets, Marked, Page, Paragraph, Style, paragraph, section
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone
from kschedctl.reports.karpenter import shorten_error
from kschedctl.reports.new_node import NeverScheduled, NewNode, NodeGrowth
from kschedctl.text.counts import counted, first_few, first_of


def build_new_node_section(new: NewNode | None, style: Style) -> Page:
    """Build the section about whether the autoscaler would add a node for this pod. Return () if `new` is None."""
    if new is None:
        return ()
    message = new.message if style.wide else shorten_error(new.message)
    return section(
        "Would a new node be added?",
        paragraph(new.answer),
        *(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in new.doubts),
        *([paragraph(Marked(message, Tone.VERBATIM))] if message else ()),
        *_build_autoscaler_event_line(new),
        *build_struct_table(new.pools, style, full=False),
        *(paragraph(Marked("Unlike kube-scheduler:", Tone.FAINT), difference) for difference in new.differences),
        *([paragraph(Marked(f"{'; '.join(new.sources)}.", Tone.FAINT))] if new.sources else ()),
    )


def _build_autoscaler_event_line(new: NewNode) -> Page:
    """Build the line that compares our answer with the autoscaler's event. Return () if there is no event."""
    event = new.said
    if event is None:
        return ()
    time = f" at {event.at}" if event.at else ""
    if event.agrees:
        return (paragraph(f"This agrees with what {new.autoscaler} reported{time}."),)
    return (paragraph(Marked(f"{new.autoscaler} reported otherwise{time}:", Tone.WARNING), event.message),)


def build_new_nodes_page(growth: NodeGrowth, style: Style) -> Page:
    """Build the page about the nodes that an autoscaler would add for all pending pods."""
    never = build_struct_table(growth.never, style, {"pods": lambda row: first_of(row.pods)}, title="Never scheduled")
    return (
        *_build_uncertainty_lines(growth),
        *_build_new_nodes_table(growth, style, title="New nodes"),
        *never,
        _build_sources_line(growth),
    )


def build_growth_section(growth: NodeGrowth, style: Style) -> Page:
    """Build the short section about new nodes that follows the table of pending pods.

    Pods that are never scheduled are listed if a cause or the autoscaler's message is known.
    """
    without = f"; {counted(growth.unplaced_count, 'pod stays', 'pods stay')} Pending" if growth.unplaced_count else ""
    sentence = f"{growth.sentence[0].upper()}{growth.sentence[1:]}{without}"
    never = Bullets(
        tuple(_describe_never_scheduled(pods, style) for pods in growth.never if pods.autoscaler or pods.causes)
    )
    pools = _build_new_nodes_table(growth, style)
    return section(
        "Would new nodes be added?",
        paragraph(sentence),
        *_build_uncertainty_lines(growth),
        *pools,
        never,
        _build_sources_line(growth),
    )


def _build_new_nodes_table(growth: NodeGrowth, style: Style, title: str = "") -> Page:
    """Build a table of the new nodes and the pods on them, by pool and zone."""
    return build_struct_table(
        growth.pools, style, {"pod_names": lambda row: first_few(row.pod_names)}, title=title, full=bool(title)
    )


def _describe_never_scheduled(never: NeverScheduled, style: Style) -> str:
    """Describe why no new node can take these pods: the causes, or else the autoscaler's shortened message.

    With -o wide, the whole message follows the causes.
    """
    reasons = list(never.causes)
    autoscaler_message = never.autoscaler
    if style.wide:
        reasons.append(autoscaler_message)
    elif not reasons:
        reasons.append(shorten_error(autoscaler_message))
    return f"{first_of(never.pods)}: {'; '.join(reasons)}"


def _build_uncertainty_lines(growth: NodeGrowth) -> Page:
    """Build a line for each thing that makes the answer uncertain."""
    return tuple(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in growth.doubts)


def _build_sources_line(growth: NodeGrowth) -> Paragraph:
    """Build the line that names the autoscaler and where its settings come from."""
    loops = f"{growth.autoscaler}, after {counted(growth.loops, 'loop')}" if growth.loops else growth.autoscaler
    sources = f". Sources: {'; '.join(growth.sources)}" if growth.sources else ""
    return paragraph(Marked(f"Simulated autoscaler: {loops}{sources}.", Tone.FAINT))
