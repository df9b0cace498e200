"""The pod that a question is about, which is in the cluster or stands for a workload."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.gangs import find_gangs
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.priority import find_priority_class
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.unknown import UnknownKind
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.pods import AnyGroupKey, get_group_key


def find_groups_of_pod(pod: Pod) -> frozenset[AnyGroupKey]:
    """Return the keys of all groups that the pod names: its PodGroup, and gangs of other projects."""
    keys: set[AnyGroupKey] = set(find_gangs(pod))
    pod_group = get_group_key(pod)
    if pod_group is not None:
        keys.add(pod_group)
    return frozenset(keys)


class TargetPod(NamedTuple):
    """A pod as the API server stores it or would store it, with a scheduler of its cluster."""

    scheduler: Scheduler
    pod: Pod
    note: str = ""
    """For which workload the pod stands, and notes about it. Empty for a pod that was named itself."""
    pending_replicas: int = 0
    """The number of pending pods of the workload that the pod stands for; 0 if the pod was named itself."""
    workload: Struct | None = None
    """The workload's manifest if the pod comes from a manifest; the pod itself for a bare pod."""
    not_created: NotCreated | None = None
    """The pods of the workload that could not be created."""
    unread: tuple[UnknownKind, ...] = ()
    """Kinds that were not read and would show pods that could not be created."""
    is_known: bool = True
    """False if nothing is known about the workload's pods, so that nothing can be replayed."""
    admitted: bool | None = None
    """True if all of admission is replayed; None if nothing is replayed."""
    fewer_reasons: tuple[str, ...] = ()
    """The reasons why the workload has no more pods although none is denied."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The reasons why the workload cannot create any pod yet."""

    @property
    def never_created(self) -> NotCreated | None:
        """The report on the workload if none of its pods is created, so that no scheduler sees one. Otherwise None."""
        report = self.not_created
        return None if report is None or report.past or report.there or report.creatable else report


def change_priority(target: TargetPod, as_if_priority: int | None = None, as_if_priority_class: str = "") -> Pod:
    """Return the target's pod with another priority or PriorityClass. Raises UsageError for an unknown class.

    If both are given, the pod has the class, but the given priority instead of the class's.
    """
    pod = target.pod
    if as_if_priority_class:
        pod = set_priority_class(pod, as_if_priority_class, target.scheduler.cluster)
    if as_if_priority is not None:
        pod = replace(pod, spec=replace(pod.spec, priority=as_if_priority))
    return pod


def describe_priority_change(as_if_priority: int | None, as_if_priority_class: str) -> str:
    """Describe what `change_priority` changes in the form of --as-if, or return "" if it changes nothing.

    >>> describe_priority_change(10, "high"), describe_priority_change(None, "")
    ('class=high priority=10', '')
    """
    priority_class = f"class={as_if_priority_class}" if as_if_priority_class else ""
    priority = "" if as_if_priority is None else f"priority={as_if_priority}"
    return " ".join(filter(None, (priority_class, priority)))


def set_priority_class(pod: Pod, name: str, cluster: Cluster) -> Pod:
    """Return the pod as admission would store it with another PriorityClass. Raises UsageError for an unknown class."""
    priority_class = find_priority_class(name, cluster.priority_classes)
    if priority_class is None:
        names = ", ".join(sorted(existing_class.metadata.name for existing_class in cluster.priority_classes))
        raise UsageError(f'no PriorityClass "{name}"', hint=f"available: {names or 'only those of the system'}")
    policy = priority_class.preemption_policy or "PreemptLowerPriority"
    spec = replace(pod.spec, priority_class_name=name, priority=priority_class.value, preemption_policy=policy)
    return replace(pod, spec=spec)
