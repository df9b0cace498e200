"""The union of all fact types of in-tree plugins, for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from kschedctl.scheduler.framework.facts import Fact, Said
from kschedctl.scheduler.registry.in_tree import IN_TREE

if TYPE_CHECKING:
    AnyFact = Fact
else:
    AnyFact = Union[
        (Said, *(fact for declared in IN_TREE.values() if declared.plugin for fact in declared.plugin.facts))
    ]


def to_fact(given: Fact | str | None) -> AnyFact | None:
    """Convert what a plugin returns as a fact; plugins of other packages may return text.

    >>> to_fact("too loud"), to_fact(Said("too loud", nominated=True)), to_fact("")
    (Said(text='too loud', nominated=False), Said(text='too loud', nominated=True), None)
    """
    if isinstance(given, str):
        return Said(given) if given else None
    return given
