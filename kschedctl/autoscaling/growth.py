"""Nodes that come for pods that wait: what an autoscaler does in one loop, whoever it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kschedctl.api.copying import replace
from kschedctl.api.objects import Condition, Node, Pod
from kschedctl.cluster import Cluster

REFUSED = Condition("PodScheduled", "False", "Unschedulable")


class NewNodes(NamedTuple):
    """``nodes``: pool -> its new ones; ``daemons``: the pods that come with them.

    ``refused``: pod -> why no node comes for it, in the autoscaler's words.
    """

    nodes: Mapping[str, tuple[Node, ...]]
    daemons: tuple[Pod, ...]
    refused: Mapping[str, str]


class Autoscaler(Protocol):
    """Makes nodes, and remembers which it made."""

    @property
    def name(self) -> str: ...

    @property
    def sources(self) -> tuple[str, ...]:
        """Where what it goes by is from."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is not certain of that."""

    def grow(self, cluster: Cluster) -> NewNodes:
        """The nodes that come in the next loop for the pods of a cluster that wait. Raises InputError."""

    def find_causes(self, cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
        """Return what keeps groups or pools from making a node, for some of the pods without one. Raises InputError."""


def as_refused(pod: Pod) -> Pod:
    """A pod of which the scheduler said that nothing takes it."""
    conditions = (*(condition for condition in pod.status.conditions if condition.type != REFUSED.type), REFUSED)
    return replace(pod, status=replace(pod.status, phase="Pending", conditions=conditions))
