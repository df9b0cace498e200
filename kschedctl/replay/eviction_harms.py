"""The harm of evicting pods: lost data, outages, restarted Jobs, and pods that end slowly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.cluster import Cluster
from kschedctl.replay.kubectl import get_longest_grace_seconds
from kschedctl.reports.summary import EvictionHarms
from kschedctl.scheduler.engine.preemption.budgets import parse_budget_selector

KINDS_NOT_EVICTED = ("DaemonSet", "Node")
KINDS_WITHOUT_OUTAGE = ("Job", "Pod", *KINDS_NOT_EVICTED)
"""Kinds of owners that are not expected to have a running pod all the time."""
SLOW_SECONDS = 300
"""Pods with a longer grace period are reported: `kubectl drain` waits until they have ended."""


def find_eviction_harms(cluster: Cluster, evicted_pods: Collection[Pod], lost: Collection[str] = ()) -> EvictionHarms:
    """Return the harm of evicting these pods together.

    This covers lost local data, pods that ask not to be evicted, outages, Jobs that start over, and pods that end
    slowly.

    Pods whose keys are in ``lost`` are not recreated. Such pods, and pods that are terminating already, cause no
    outages or restarts here. A workload has an outage if all of its pods with a node are evicted, unless a
    PodDisruptionBudget keeps one of them running.
    """
    recreated_pods = [
        pod
        for pod in evicted_pods
        if pod.spec.node_name and pod.key not in lost and pod.metadata.deletion_timestamp is None
    ]
    pods_by_owner: dict[Owner, list[Pod]] = {}
    for pod in recreated_pods:
        pods_by_owner.setdefault(find_owner(pod), []).append(pod)
    grace_seconds = {pod.key: get_longest_grace_seconds([pod]) for pod in evicted_pods}
    return EvictionHarms(
        loses_data=list_pods_with_local_data(evicted_pods),
        ask_to_stay=list_pods_asking_to_stay(evicted_pods),
        outages=tuple(str(owner) for owner, pods in pods_by_owner.items() if _has_outage(cluster, owner, pods)),
        starting_over=tuple(pod.key for pod in recreated_pods if find_owner(pod).kind == "Job"),
        slow_pods={key: seconds for key, seconds in grace_seconds.items() if seconds > SLOW_SECONDS},
    )


def _has_outage(cluster: Cluster, owner: Owner, evicted_pods: Sequence[Pod]) -> bool:
    """Return whether the evicted pods of a workload are all of its running pods, and no budget keeps one of them."""
    if owner.kind in KINDS_WITHOUT_OUTAGE:
        return False
    running_count = cluster.pods.running_counts.get(owner, 0)
    return len(evicted_pods) >= running_count and not _is_kept_running(cluster, evicted_pods[0])


def _is_kept_running(cluster: Cluster, pod: Pod) -> bool:
    """Return whether a PodDisruptionBudget that selects the pod requires at least one healthy pod."""
    return any(
        budget.status.desired_healthy > 0 and parse_budget_selector(budget.spec).matches(pod.metadata.labels)
        for budget in cluster.list_in_namespace("pod_disruption_budgets", pod.metadata.namespace)
    )


def list_pods_with_local_data(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the keys of the pods whose emptyDir volumes are deleted with them."""
    return tuple(pod.key for pod in pods if any(volume.empty_dir is not None for volume in pod.spec.volumes))


def list_pods_asking_to_stay(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the keys of the pods whose annotations ask autoscalers not to evict them."""
    return tuple(
        pod.key
        for pod in pods
        if pod.metadata.annotations.safe_to_evict == "false" or pod.metadata.annotations.do_not_disrupt == "true"
    )
