"""Descriptions of the changes that make the queue retry a pod that a plugin rejected.

For the queue itself, plugins have `events_to_register`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kschedctl.api.labels import Selector
from kschedctl.scheduler.framework import Plugin
from kschedctl.scheduler.framework.events import UPDATED_NODES_AS_NEW, ActionType
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

ADD, DELETE, UPDATE = ActionType.ADD, ActionType.DELETE, ActionType.UPDATE
ADD_OR_UPDATE = ADD | UPDATE
BY_THE_PLUGIN = ActionType(0)
"""No event: the plugin itself has the pod retried."""


class WakeTrigger(NamedTuple):
    """The description of a change that makes the queue retry a pod."""

    kind: str
    action: ActionType
    words: str


@runtime_checkable
class WakingPlugin(Plugin, Protocol):
    """A plugin that describes the changes that wake pods. Other plugins are described by their registered events."""

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that wakes a pod rejected by the plugin, with queueing hints."""


@runtime_checkable
class AdmittingPlugin(Plugin, Protocol):
    """A plugin that keeps pods out of the active queue and reacts only to some of the events that it registers for."""

    def admitting_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change after which the plugin lets the pod into the active queue."""


def treats_updated_nodes_as_new(gates: FeatureGates) -> bool:
    """Return whether plugins treat an updated node as a new one in this version."""
    return UPDATED_NODES_AS_NEW.at(gates.release)


def join_words(parts: Sequence[str], last: str = "and") -> str:
    """Join words with commas and a conjunction.

    >>> join_words(["a", "b", "c"]), join_words(["a"]), join_words(["a", "b"], "or")
    ('a, b and c', 'a', 'a or b')
    """
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def describe_selected_labels(selector: Selector) -> str:
    """Describe the labels of the pods that a selector selects.

    >>> describe_selected_labels(Selector()), describe_selected_labels(Selector(matches_nothing=True))
    ('with any labels', 'that no selector selects')
    """
    if selector.matches_nothing:
        return "that no selector selects"
    return f"with {selector}" if selector.requirements else "with any labels"
