"""The interface of autoscalers, which add nodes for pending pods loop by loop, and the progress of their replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

from kschedctl.api.copying import replace
from kschedctl.api.objects import Condition, Node, Pod
from kschedctl.cluster import Cluster

UNSCHEDULABLE_CONDITION = Condition("PodScheduled", "False", "Unschedulable")


class NewNodes(NamedTuple):
    """The nodes that an autoscaler adds in one loop."""

    nodes: Mapping[str, tuple[Node, ...]]
    """Pool -> its new nodes."""
    daemons: tuple[Pod, ...]
    """The DaemonSet pods of the new nodes."""
    reasons: Mapping[str, str]
    """Pod -> why no node is added for it, in the autoscaler's own text."""


class Autoscaler(Protocol):
    """An autoscaler that adds nodes and remembers them in later loops."""

    @property
    def name(self) -> str: ...

    @property
    def sources(self) -> tuple[str, ...]:
        """Descriptions of where its configuration comes from."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Descriptions of what is uncertain about its configuration."""

    def grow(self, cluster: Cluster) -> NewNodes:
        """Return the nodes that the next loop adds for pending pods. Raises InputError."""

    def find_causes(self, cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
        """Return the obstacles that keep groups or pools from adding a node, for some of the unschedulable pods.
        Raises InputError.
        """


def mark_unschedulable(pod: Pod) -> Pod:
    """Return the pod as pending, with the condition that kube-scheduler found no node for it."""
    conditions = (
        *(condition for condition in pod.status.conditions if condition.type != UNSCHEDULABLE_CONDITION.type),
        UNSCHEDULABLE_CONDITION,
    )
    return replace(pod, status=replace(pod.status, phase="Pending", conditions=conditions))


T = TypeVar("T")

Begin = Callable[[str, int], Callable[[int], None]]
"""A function that begins a task, given its title and number of parts, and returns a function that reports done
parts.
"""


def ignore_progress(title: str, total: int) -> Callable[[int], None]:
    """Begin a task without reporting its progress."""
    return lambda done: None


def iter_with_progress(begin: Begin, title: str, parts: list[T]) -> Iterator[T]:
    """Yield the parts of a task, and report each part as done once the caller asks for the next one."""
    done = begin(title, len(parts))
    for part in parts:
        yield part
        done(1)
