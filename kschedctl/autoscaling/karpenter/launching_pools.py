"""NodePools that launch nodes in repeated provisioning runs. Each node is ready at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.growth import NewNodes, mark_unschedulable
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.launched_nodes import build_launched_nodes
from kschedctl.autoscaling.karpenter.new_node import NAME
from kschedctl.autoscaling.karpenter.provision import provision
from kschedctl.autoscaling.karpenter.seen_types import derive_instance_types
from kschedctl.cluster import Cluster
from kschedctl.text.counts import counted


class LaunchingPools:
    """The NodePools of a cluster, which launch nodes for pods that kube-scheduler rejects.

    If ``types`` is None, only the instance types of existing nodes are known. Without ``limited``, the limits of
    NodePools are ignored. Raises InputError.
    """

    name = NAME

    def __init__(
        self,
        cluster: Cluster,
        types: Sequence[JsonObject] | None,
        settings: Mapping[str, object],
        now: str,
        *,
        limited: bool = True,
    ) -> None:
        self._limited = limited
        self._types = derive_instance_types(cluster) if types is None else types
        self._sold = read_instance_types(self._types)
        self._settings, self._now = settings, now
        type_count = counted(len(self._types), "instance type")
        self.doubts = (
            () if types is not None else (f"only the {type_count} of existing nodes: --instance-types tells others",)
        )
        self.sources = ("NodePools of the cluster",)

    def find_causes(self, cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
        """Return what each NodePool lacks to take a pod, for some of the unschedulable pods. Raises InputError."""
        report = provision(self._mark_waiting_pods(cluster), self._types, self._settings, now=self._now)
        return {
            pod: tuple(f"NodePool {pool}: {'; '.join(obstacles)}" for pool, obstacles in pools.items() if obstacles)
            for pod, pools in report.missing.items()
        }

    def grow(self, cluster: Cluster) -> NewNodes:
        """Launch nodes for the unschedulable pods."""
        report = provision(self._mark_waiting_pods(cluster), self._types, self._settings, now=self._now, explains=False)
        reasons = {key: error.error for key, error in report.pod_errors.items()}
        reasons |= {event.name: event.message for event in report.rejected}
        claims = [claim for claim in report.new_node_claims if claim.node_pool not in report.limits_exceeded]
        return build_launched_nodes(cluster, claims, self._sold)._replace(reasons=reasons)

    def _mark_waiting_pods(self, cluster: Cluster) -> Cluster:
        """Return the cluster with all waiting pods marked unschedulable, and without limits unless ``limited``."""
        waiting = {
            (pod.metadata.namespace, pod.metadata.name): _mark_unschedulable(pod)
            for pod in cluster.unbound_pods()
            if not pod.terminated
        }
        marked = replace(cluster, pods=cluster.pods.apply_changes(waiting))
        if not self._limited:
            pools = tuple(replace(pool, spec=replace(pool.spec, limits=None)) for pool in cluster.karpenter_node_pools)
            marked = replace(marked, karpenter_node_pools=pools)
        return marked


def _mark_unschedulable(pod: Pod) -> Pod:
    """Mark the pod unschedulable and remove its nomination, because Karpenter skips nominated pods."""
    pod = mark_unschedulable(pod)
    return replace(pod, status=replace(pod.status, nominated_node_name=""))
