"""The interface of autoscalers, which add nodes for pending pods loop by loop, and the progress of their replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

from kschedctl.api.copying import replace
from kschedctl.api.objects import Condition, Node, Pod
from kschedctl.cluster import Cluster

UNSCHEDULABLE_CONDITION = Condition("PodScheduled", "False", "Unschedulable")
T = TypeVar("T")
Begin = Callable[[str, int], Callable[[int], None]]
"""A function that begins a task with a title and a number of parts. It returns a function that reports finished
parts.
"""


class NewNodes(NamedTuple):
    """The nodes that an autoscaler adds in one loop."""

    nodes: Mapping[str, tuple[Node, ...]]
    """Pool or node group -> its new nodes."""
    daemons: tuple[Pod, ...]
    """The DaemonSet pods of the new nodes."""
    reasons: Mapping[str, str]
    """Pod -> why no node is added for it, in the autoscaler's own text."""


class Autoscaler(Protocol):
    """An autoscaler that adds nodes and remembers them in later loops."""

    @property
    def name(self) -> str:
        """The autoscaler's name."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Descriptions of where its configuration comes from."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Descriptions of what is uncertain about its configuration."""

    def grow_for_pending_pods(self, cluster: Cluster) -> NewNodes:
        """Run one loop, which adds nodes for pending pods, and return the new nodes.

        Raises InputError if the cluster has a malformed object.
        """

    def explain_missing_nodes(self, cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
        """Return, by pod key, descriptions of what keeps the autoscaler from adding a node for the pod.

        Not all pods have an entry. Raises InputError if the cluster has a malformed object.
        """


def mark_pod_unschedulable(pod: Pod) -> Pod:
    """Return a pending copy of the pod with the condition that kube-scheduler sets if no node fits."""
    conditions = (
        *(condition for condition in pod.status.conditions if condition.type != UNSCHEDULABLE_CONDITION.type),
        UNSCHEDULABLE_CONDITION,
    )
    return replace(pod, status=replace(pod.status, phase="Pending", conditions=conditions))


def ignore_progress(title: str, total: int) -> Callable[[int], None]:
    """Begin a task without reporting its progress. The returned function does nothing."""
    return lambda done: None


def iter_with_progress(begin: Begin, title: str, parts: list[T]) -> Iterator[T]:
    """Yield each part of a task, and report a part as done when the next one is requested.

    `begin` starts the progress display of the task.
    """
    done = begin(title, len(parts))
    for part in parts:
        yield part
        done(1)
