"""The part of an explanation that says whether a new node would come."""

from __future__ import annotations

from kschedctl.render.page import Marked, Page, Style, paragraph, section
from kschedctl.render.tables import listed
from kschedctl.reports.columns import Tone
from kschedctl.reports.new_node import NewNode
from kschedctl.reports.provisioning import without_lists
from kschedctl.text.counts import counted, first_few


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
    message = new.message if style.wide else without_lists(new.message)
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
        *listed(new.pools, style, full=False),
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
