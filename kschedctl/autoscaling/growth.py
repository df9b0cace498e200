"""The interface of autoscalers: nodes that are added for pending pods in one loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kschedctl.api.copying import replace
from kschedctl.api.objects import Condition, Node, Pod
from kschedctl.cluster import Cluster

REFUSED = Condition("PodScheduled", "False", "Unschedulable")


class NewNodes(NamedTuple):
    """The nodes added in one loop."""

    nodes: Mapping[str, tuple[Node, ...]]
    """Pool -> its new nodes."""
    daemons: tuple[Pod, ...]
    """The DaemonSet pods of the new nodes."""
    reasons: Mapping[str, str]
    """Pod -> why no node is added for it, in the autoscaler's words."""


class Autoscaler(Protocol):
    """An autoscaler that adds nodes and remembers which."""

    @property
    def name(self) -> str: ...

    @property
    def sources(self) -> tuple[str, ...]:
        """Where its configuration comes from."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is uncertain about the configuration."""

    def grow(self, cluster: Cluster) -> NewNodes:
        """Return the nodes that the next loop adds for pending pods. Raises InputError."""

    def find_causes(self, cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
        """Return what keeps groups or pools from making a node, for some of the pods without one. Raises InputError."""


def mark_unschedulable(pod: Pod) -> Pod:
    """Return the pod as pending with the condition that the scheduler found no node."""
    conditions = (*(condition for condition in pod.status.conditions if condition.type != REFUSED.type), REFUSED)
    return replace(pod, status=replace(pod.status, phase="Pending", conditions=conditions))
