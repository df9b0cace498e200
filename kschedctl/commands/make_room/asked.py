"""The pods that a question about room is about: one that waits, with its group, or all that wait of a workload."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod, find_groups
from kschedctl.replay.edits import add_pods


def waiting_with(asked: Sequence[TargetPod]) -> tuple[Cluster, list[str]]:
    """The cluster with the pods that are asked about, and these, ``namespace/name``. Raises UsageError for several
    clusters, and for a pod that has a node.
    """
    cluster, keys = asked[0].scheduler.cluster, dict[str, None]()
    for other in asked:
        pod = other.pod
        if pod.spec.node_name:
            raise UsageError(f"{pod.key} has a node already: {pod.spec.node_name}", hint="name a pod that waits")
        if other.scheduler.cluster is not asked[0].scheduler.cluster:
            raise UsageError("these pods come in different ways", hint="name one of them")
        if cluster.pod(pod.metadata.namespace, pod.metadata.name) is None:
            cluster = add_pods(cluster, [pod])
        keys |= dict.fromkeys([pod.key, *(other.key for other in _others(other, cluster))])
    return cluster, list(keys)


def _others(asked: TargetPod, cluster: Cluster) -> list[Pod]:
    """Other pods that wait and are of its group, or of the workload that it stands for."""
    mine, groups = find_owner(asked.pod), find_groups(asked.pod)
    return [
        pod
        for pod in cluster.unbound_pods()
        if pod.metadata.deletion_timestamp is None
        and not pod.terminated
        and ((asked.note and find_owner(pod) == mine and mine.kind != "Pod") or groups & find_groups(pod))
    ]
