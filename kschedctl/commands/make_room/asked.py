"""The waiting pods that a question is about: one with its group, or all of a workload."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod, find_groups
from kschedctl.replay.edits import add_pods


def collect_waiting(targets: Sequence[TargetPod]) -> tuple[Cluster, list[str]]:
    """Return the cluster including the target pods, and the keys of all pods to make room for.

    Raises UsageError for targets of several clusters, and for a pod that has a node.
    """
    cluster, keys = targets[0].scheduler.cluster, dict[str, None]()
    for target in targets:
        pod = target.pod
        if pod.spec.node_name:
            raise UsageError(f"{pod.key} has a node already: {pod.spec.node_name}", hint="name a pod that waits")
        if target.scheduler.cluster is not targets[0].scheduler.cluster:
            raise UsageError("these pods come in different ways", hint="name one of them")
        if cluster.pod(pod.metadata.namespace, pod.metadata.name) is None:
            cluster = add_pods(cluster, [pod])
        keys |= dict.fromkeys([pod.key, *(target.key for target in _find_companions(target, cluster))])
    return cluster, list(keys)


def _find_companions(target: TargetPod, cluster: Cluster) -> list[Pod]:
    """Return the other waiting pods of the target's group, or of the workload that it stands for."""
    mine, groups = find_owner(target.pod), find_groups(target.pod)
    return [
        pod
        for pod in cluster.unbound_pods()
        if pod.metadata.deletion_timestamp is None
        and not pod.terminated
        and ((target.note and find_owner(pod) == mine and mine.kind != "Pod") or groups & find_groups(pod))
    ]
