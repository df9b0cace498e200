"""What is said of a kind of change that wakes a pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kschedctl.scheduler.framework.events import AS_IF_ADDED, ActionType
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

ADD, DELETE, UPDATE = ActionType.ADD, ActionType.DELETE, ActionType.UPDATE
BY_THE_PLUGIN = ActionType(0)
"""No event: a plugin has the pod tried again."""


class Waiting(NamedTuple):
    """A pod that was refused, the plugin that is asked about, and the cluster. Extenders have a name only.

    ``gated``: the plugin keeps the pod from being tried at all, until it says otherwise itself.
    """

    info: PodInfo
    name: str
    plugin: Any
    view: Fork
    gates: FeatureGates
    gated: bool = False

    @property
    def changed_as_new(self) -> bool:
        """Whether plugins that compare a node with what it was take it for a new one."""
        return AS_IF_ADDED.at(self.gates.release)


class Told(NamedTuple):
    """How a kind of object has to change, in words."""

    kind: str
    action: ActionType
    words: str


def listed(parts: Sequence[str], last: str = "and") -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a"]), listed(["a", "b"], "or")
    ('a, b and c', 'a', 'a or b')
    """
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if len(parts) > 1 else "".join(parts)


def labels(action: ActionType) -> tuple[str, ...]:
    """Upstream's names of the ways to change.

    >>> labels(ActionType.ADD | ActionType.UPDATE_NODE_LABEL), labels(ActionType.DELETE | ActionType.UPDATE)
    (('Add', 'UpdateNodeLabel'), ('Delete', 'Update'))
    """
    update = UPDATE in action
    single = [each for each in ActionType if each.bit_count() == 1 and each & action]
    basic = (each.label for each in single if not (update and each & UPDATE))
    return (*basic, *(("Update",) if update else ()))
