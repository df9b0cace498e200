"""A pod as it would be with another priority, or in another PriorityClass."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.priority import find_priority_class
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.asked_pod import AskedPod


def as_if(asked: AskedPod, as_if_priority: int | None = None, as_if_priority_class: str = "") -> Pod:
    """The pod with another priority. Raises UsageError when there is no such class."""
    pod = asked.pod
    if as_if_priority_class:
        pod = with_priority_class(pod, as_if_priority_class, asked.scheduler.cluster)
    if as_if_priority is not None:
        pod = replace(pod, spec=replace(pod.spec, priority=as_if_priority))
    return pod


def with_priority_class(pod: Pod, name: str, cluster: Cluster) -> Pod:
    """The pod as it would be in another PriorityClass. Raises UsageError when there is no such class."""
    class_ = find_priority_class(name, cluster.priority_classes)
    if class_ is None:
        known = ", ".join(sorted(c.metadata.name for c in cluster.priority_classes)) or "none but the system's"
        raise UsageError(f'no PriorityClass "{name}"', hint=f"there are: {known}")
    policy = class_.preemption_policy or "PreemptLowerPriority"
    spec = replace(pod.spec, priority_class_name=name, priority=class_.value, preemption_policy=policy)
    return replace(pod, spec=spec)
