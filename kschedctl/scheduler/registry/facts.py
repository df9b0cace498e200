"""All facts that plugins give, as reports hold them."""

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


def as_fact(given: Fact | str | None) -> AnyFact | None:
    """What a plugin gives as fact: one of other packages may give words alone.

    >>> as_fact("too loud"), as_fact(Said("too loud", nominated=True)), as_fact("")
    (Said(text='too loud', nominated=False), Said(text='too loud', nominated=True), None)
    """
    if isinstance(given, str):
        return Said(given) if given else None
    return given
