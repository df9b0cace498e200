"""The sections about nodes that an autoscaler would launch, for one pod and for all pending pods."""

from __future__ import annotations

from kschedctl.render.page import Bullets, Marked, Page, Paragraph, Style, paragraph, section
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone
from kschedctl.reports.new_node import NeverScheduled, NewNode, NodeGrowth
from kschedctl.reports.provisioning import shorten_error
from kschedctl.text.counts import counted, first_few, first_of


def build_new_node(new: NewNode | None, style: Style) -> Page:
    """Build the section that says whether the autoscaler would launch a node for the pod alone."""
    if new is None:
        return ()
    if new.existing_node:
        answer = f"No: {new.autoscaler} sees room for it on {new.existing_node}"
    elif new.comes or new.queue:
        answer = _describe_queue_answer(new)
    else:
        answer = f"No, not from {new.autoscaler}" + (f"; {new.closest} comes closest" if new.closest else "")
    if new.seen_types is not None:
        types = counted(new.seen_types, "instance type")
        answer += f", of the {types} of existing nodes; --instance-types FILE names others"
    message = new.message if style.wide else shorten_error(new.message)
    words = (paragraph(Marked(message, Tone.VERBATIM)),) if message else ()
    doubts = (paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in new.doubts)
    sources = (paragraph(Marked(f"{'; '.join(new.sources)}.", Tone.FAINT)),) if new.sources else ()
    otherwise = (paragraph(Marked("Unlike kube-scheduler:", Tone.FAINT), difference) for difference in new.differences)
    title = "Would a new node come?"
    return section(
        title,
        paragraph(answer),
        *doubts,
        *words,
        *_build_autoscaler_event(new),
        *build_struct_table(new.pools, style, full=False),
        *otherwise,
        *sources,
    )


def _describe_queue_answer(new: NewNode) -> str:
    """Describe whether the pod gets a new node, which it may have to share with other waiting pods or lose to them."""
    queue = new.queue
    if queue is None:
        return f"Yes, from {new.autoscaler}"
    rivals = f" ({first_few(queue.rivals)})" if queue.rivals else ""
    rivals_count = counted(len(queue.rivals), "other waiting pod")
    if queue.placed and not queue.rivals:
        return f"Yes, from {new.autoscaler}, whatever else waits"
    if queue.placed:
        return f"Yes, from {new.autoscaler}: {queue.growth}, which the pod shares with {rivals_count}{rivals}"
    enough = f"; {queue.enough:,} would be enough" if queue.enough is not None else ""
    taken = (
        f"{rivals_count} take their room{rivals}"
        if len(queue.rivals) != 1
        else f"{rivals_count} takes their room{rivals}"
    )
    return f"Not for this pod: {new.autoscaler} adds {queue.growth}, but {taken}{enough}"


def _build_autoscaler_event(new: NewNode) -> Page:
    """Build the line that compares the answer with the autoscaler's own event."""
    event = new.said
    if event is None:
        return ()
    at = f" at {event.at}" if event.at else ""
    if event.agrees:
        return (paragraph(f"That is what {new.autoscaler} said{at}."),)
    return (paragraph(Marked(f"{new.autoscaler} said otherwise{at}:", Tone.WARNING), event.message),)


def build_growth(growth: NodeGrowth, style: Style) -> Page:
    """Build the section about new nodes for all pods: doubts, pools, and pods without a node."""
    never = build_struct_table(
        growth.never, style, {"pods": lambda never: first_of(never.pods)}, title="Never scheduled"
    )
    return (
        *_build_doubts(growth),
        *build_struct_table(growth.pools, style, title="New nodes"),
        *never,
        _build_sources(growth),
    )


def build_brief_growth(growth: NodeGrowth, style: Style) -> Page:
    """Build the short section about new nodes, below a table that already has kube-scheduler's messages."""
    without = f"; {counted(growth.without, 'pod')} never scheduled" if growth.without else ""
    sentence = f"{growth.sentence[0].upper()}{growth.sentence[1:]}{without}"
    never = Bullets(
        tuple(_describe_never_scheduled(pods, style) for pods in growth.never if pods.autoscaler or pods.causes)
    )
    pools = build_struct_table(growth.pools, style, full=False)
    return section(
        "Would new nodes come?", paragraph(sentence), *_build_doubts(growth), *pools, never, _build_sources(growth)
    )


def _describe_never_scheduled(never: NeverScheduled, style: Style) -> str:
    """Return what stops nodes for pods, in our words or, if nothing is known or with ``-o wide``, in the
    autoscaler's.
    """
    words = never.autoscaler if style.wide else shorten_error(never.autoscaler)
    reasons = (*never.causes, *([words] if style.wide or not never.causes else []))
    return f"{first_of(never.pods)}: {'; '.join(reasons)}"


def _build_doubts(growth: NodeGrowth) -> Page:
    """Build the lines about what is not certain."""
    return tuple(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in growth.doubts)


def _build_sources(growth: NodeGrowth) -> Paragraph:
    """Build the line about the autoscaler and where its settings were read."""
    loops = f"{growth.autoscaler}, after {counted(growth.loops, 'loop')}" if growth.loops else growth.autoscaler
    grounds = "; ".join((loops, *growth.sources))
    return paragraph(Marked(f"{grounds}.", Tone.FAINT))
