"""The part of an explanation that says whether a new node would come."""

from __future__ import annotations

from kschedctl.render.page import Page, Style, paragraph, section
from kschedctl.render.tables import listed
from kschedctl.reports.new_node import NewNode
from kschedctl.text.counts import counted


def new_node_section(new: NewNode | None, style: Style) -> Page:
    """What the autoscaler would do for the pod alone."""
    if new is None:
        return ()
    if new.existing_node:
        told = f"No: {new.autoscaler} sees room for it on {new.existing_node}, and launches none"
    elif new.comes:
        told = f"Yes, {new.autoscaler} would launch one"
    else:
        told = f"No NodePool of {new.autoscaler} would launch one"
    if new.seen_types is not None:
        types = counted(new.seen_types, "instance type")
        told += f", of the {types} of existing nodes; --instance-types FILE names others"
    pools = listed(new.pools, style)
    return section("Would a new node come?", paragraph(told), *pools)
