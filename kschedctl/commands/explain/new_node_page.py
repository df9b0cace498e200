"""The part of an explanation that says whether a new node would come."""

from __future__ import annotations

from kschedctl.render.page import Bullets, Marked, Page, Paragraph, Style, paragraph, section
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Tone
from kschedctl.reports.new_node import NeverScheduled, NewNode, NodeGrowth
from kschedctl.reports.provisioning import shorten_error
from kschedctl.text.counts import counted, first_few, first_of


def new_node_section(new: NewNode | None, style: Style) -> Page:
    """What the autoscaler would do for the pod alone."""
    if new is None:
        return ()
    if new.existing_node:
        answer = f"No: {new.autoscaler} sees room for it on {new.existing_node}"
    elif new.comes or new.queue:
        answer = _answer_of_queue(new)
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
        *_said(new),
        *build_struct_table(new.pools, style, full=False),
        *otherwise,
        *sources,
    )


def _answer_of_queue(new: NewNode) -> str:
    """Return whether the pod gets a node, which it may have to share with other waiting pods, or lose to them."""
    queue = new.queue
    if queue is None:
        return f"Yes, from {new.autoscaler}"
    rivals = f" ({first_few(queue.rivals)})" if queue.rivals else ""
    others = counted(len(queue.rivals), "other waiting pod")
    if queue.placed and not queue.rivals:
        return f"Yes, from {new.autoscaler}, whatever else waits"
    if queue.placed:
        return f"Yes, from {new.autoscaler}: {queue.growth}, which the pod shares with {others}{rivals}"
    enough = f"; {queue.enough:,} would be enough" if queue.enough is not None else ""
    taken = f"{others} take their room{rivals}" if len(queue.rivals) != 1 else f"{others} takes their room{rivals}"
    return f"Not for this pod: {new.autoscaler} adds {queue.growth}, but {taken}{enough}"


def _said(new: NewNode) -> Page:
    """What the autoscaler's own event says, and whether that is the same."""
    said = new.said
    if said is None:
        return ()
    at = f" at {said.at}" if said.at else ""
    if said.agrees:
        return (paragraph(f"That is what {new.autoscaler} said{at}."),)
    return (paragraph(Marked(f"{new.autoscaler} said otherwise{at}:", Tone.WARNING), said.message),)


def growth_section(growth: NodeGrowth, style: Style) -> Page:
    """Doubts first, then nodes, then the pods without one."""
    never = build_struct_table(
        growth.never, style, {"pods": lambda never: first_of(never.pods)}, title="Never scheduled"
    )
    return (*_doubts(growth), *build_struct_table(growth.pools, style, title="New nodes"), *never, _grounds(growth))


def growth_in_brief(growth: NodeGrowth, style: Style) -> Page:
    """New nodes, below a table that has kube-scheduler's words already."""
    without = f"; {counted(growth.without, 'pod')} never scheduled" if growth.without else ""
    told = f"{growth.sentence[0].upper()}{growth.sentence[1:]}{without}"
    never = Bullets(tuple(_why_never(pods, style) for pods in growth.never if pods.autoscaler or pods.causes))
    pools = build_struct_table(growth.pools, style, full=False)
    return section("Would new nodes come?", paragraph(told), *_doubts(growth), *pools, never, _grounds(growth))


def _why_never(never: NeverScheduled, style: Style) -> str:
    """Return what stops nodes for pods in our words, or in the autoscaler's if nothing else is known; all if wide."""
    words = never.autoscaler if style.wide else shorten_error(never.autoscaler)
    said = (*never.causes, *([words] if style.wide or not never.causes else []))
    return f"{first_of(never.pods)}: {'; '.join(said)}"


def _doubts(growth: NodeGrowth) -> Page:
    return tuple(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in growth.doubts)


def _grounds(growth: NodeGrowth) -> Paragraph:
    loops = f"{growth.autoscaler}, after {counted(growth.loops, 'loop')}" if growth.loops else growth.autoscaler
    grounds = "; ".join((loops, *growth.sources))
    return paragraph(Marked(f"{grounds}.", Tone.FAINT))
