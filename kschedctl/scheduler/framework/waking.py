"""What wakes a pod that a plugin refused, in words: for people, where ``events_to_register`` is for the queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kschedctl.api.labels import Selector
from kschedctl.scheduler.framework import Plugin
from kschedctl.scheduler.framework.events import AS_IF_ADDED, ActionType
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

ADD, DELETE, UPDATE = ActionType.ADD, ActionType.DELETE, ActionType.UPDATE
EITHER = ADD | UPDATE
BY_THE_PLUGIN = ActionType(0)
"""No event: a plugin has the pod tried again."""


class WakeTrigger(NamedTuple):
    """How a kind of object has to change, in words."""

    kind: str
    action: ActionType
    words: str


@runtime_checkable
class WakingPlugin(Plugin, Protocol):
    """One that says itself what wakes pods; of others the events that they asked for are told."""

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """What wakes a pod that the plugin refused, with queueing hints."""


@runtime_checkable
class AdmittingPlugin(Plugin, Protocol):
    """One that keeps pods from being tried, and does not act on all events that it is told of then."""

    def admitting_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """What it takes until the plugin lets the pod into the active queue."""


def changed_as_new(gates: FeatureGates) -> bool:
    """Whether plugins that compare a node with what it was take it for a new one."""
    return AS_IF_ADDED.at(gates.release)


def listed(parts: Sequence[str], last: str = "and") -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a"]), listed(["a", "b"], "or")
    ('a, b and c', 'a', 'a or b')
    """
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def labelled(selector: Selector) -> str:
    """Which pods a selector selects.

    >>> labelled(Selector()), labelled(Selector(nothing=True))
    ('with any labels', 'that no selector selects')
    """
    if selector.matches_nothing:
        return "that no selector selects"
    return f"with {selector}" if selector.requirements else "with any labels"
