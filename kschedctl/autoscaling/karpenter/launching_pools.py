"""NodePools that launch nodes in repeated provisioning runs, and these nodes as kube-scheduler sees them.

Each node is ready at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Condition, Node, NodeSpec, NodeStatus, ObjectMeta, Pod, Resources, Taint
from kschedctl.autoscaling.growth import NewNodes, mark_pod_unschedulable
from kschedctl.autoscaling.karpenter.daemons import Daemons, get_daemonset_pods
from kschedctl.autoscaling.karpenter.instance_types import (
    InstanceType,
    InstanceTypeCatalog,
    read_instance_types,
)
from kschedctl.autoscaling.karpenter.labels import CAPACITY_TYPE, HOSTNAME, INITIALIZED, NORMALIZED, REGISTERED, ZONE
from kschedctl.autoscaling.karpenter.new_node import NAME
from kschedctl.autoscaling.karpenter.provision import provision
from kschedctl.autoscaling.karpenter.state_nodes import StateNode, derive_instance_types
from kschedctl.cluster import Cluster
from kschedctl.reports.karpenter import LaunchedClaim
from kschedctl.text.counts import agreeing

READY = Condition("Ready", "True")
NEW_PROVIDER = "new:///"
"""Prefix of the provider ids of new nodes. Without one, Karpenter does not count a node for the limits of its pool."""


class LaunchingPools:
    """The NodePools of a cluster, which launch nodes for pods that kube-scheduler rejects.

    If ``types`` is None, only the instance types of existing nodes are known. Without ``limited``, the limits of
    NodePools are ignored. Raises InputError for malformed instance types.
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
        self._catalog = read_instance_types(self._types)
        self._settings, self._now = settings, now
        self.doubts: tuple[str, ...] = ()
        if types is None:
            type_count = agreeing(len(self._types), "instance type", f"{len(self._types):,} instance types")
            doubt = f"only the {type_count} of existing nodes can be considered; --instance-types FILE adds others"
            self.doubts = (doubt,)
        self.sources = ("NodePools of the cluster",)

    def explain_missing_nodes(self, cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
        """Return, by pod key, why each NodePool launches no node for an unschedulable pod, one text per pool.

        A pool without obstacles has no text. Pods beyond the number that provisioning explains have no entry. Raises
        InputError if the cluster has a malformed object.
        """
        report = provision(self._prepare_for_provisioning(cluster), self._types, self._settings, now=self._now)
        return {
            pod: tuple(f"NodePool {pool}: {'; '.join(obstacles)}" for pool, obstacles in pools.items() if obstacles)
            for pod, pools in report.missing.items()
        }

    def grow_for_pending_pods(self, cluster: Cluster) -> NewNodes:
        """Launch nodes for the unschedulable pods, and return the nodes and the reasons why other pods get no node.

        Pools that already exceed their limits launch no nodes.
        """
        report = provision(
            self._prepare_for_provisioning(cluster), self._types, self._settings, now=self._now, explains=False
        )
        reasons = {key: error.error for key, error in report.pod_errors.items()}
        reasons |= {event.name: event.message for event in report.rejected}
        claims = [claim for claim in report.new_node_claims if claim.node_pool not in report.limits_exceeded]
        return build_launched_nodes(cluster, claims, self._catalog)._replace(reasons=reasons)

    def _prepare_for_provisioning(self, cluster: Cluster) -> Cluster:
        """Return the cluster with all waiting pods marked as unschedulable, so that Karpenter considers them.

        If NodePool limits are ignored, the pools in the result have no limits.
        """
        marked_pods = {
            (pod.metadata.namespace, pod.metadata.name): _mark_pod_provisionable(pod)
            for pod in cluster.unbound_pods()
            if not pod.terminated
        }
        pools = cluster.karpenter_node_pools
        if not self._limited:
            pools = tuple(replace(pool, spec=replace(pool.spec, limits=None)) for pool in pools)
        return replace(cluster, pods=cluster.pods.apply_changes(marked_pods), karpenter_node_pools=pools)


def _mark_pod_provisionable(pod: Pod) -> Pod:
    """Return the pod marked as unschedulable, without a nomination, because Karpenter skips nominated pods."""
    pod = mark_pod_unschedulable(pod)
    return replace(pod, status=replace(pod.status, nominated_node_name=""))


def build_launched_nodes(cluster: Cluster, claims: Iterable[LaunchedClaim], catalog: InstanceTypeCatalog) -> NewNodes:
    """Build the nodes that the claims would launch from their cheapest offerings, with the DaemonSets' pods.

    Claims without an offering launch no node. The result gives no reasons for pools without nodes.
    """
    used_names = {node.metadata.name for node in cluster.nodes}
    types = {instance_type.name: instance_type for instance_type in catalog.types}
    nodes_by_pool: dict[str, list[Node]] = {}
    for claim in claims:
        name = next(name for name in _iter_node_names(claim.node_pool) if name not in used_names)
        used_names.add(name)
        pool_nodes = nodes_by_pool.setdefault(claim.node_pool, [])
        node = _build_claim_node(claim, name, types)
        if node is not None:
            pool_nodes.append(node)

    daemons: list[Pod] = []
    for node in chain.from_iterable(nodes_by_pool.values()):
        daemons += _iter_daemonset_pods(cluster, node)
    return NewNodes({pool: tuple(nodes) for pool, nodes in nodes_by_pool.items()}, tuple(daemons), reasons={})


def _iter_node_names(pool: str) -> Iterator[str]:
    """Yield names for new nodes of a pool, numbered from 1 without end."""
    return (f"{pool}-new-{number}" for number in count(1))


def _build_claim_node(claim: LaunchedClaim, name: str, types: dict[str, InstanceType]) -> Node | None:
    """Build the node that the claim launches, or return None if the claim has no offering."""
    if claim.cheapest is None:
        return None
    cheapest_option = claim.cheapest.options[0]  # such as "m5.large|us-east-1a|spot"
    type_name, zone, capacity_type = cheapest_option.split("|")
    instance_type = types[type_name]

    # Of a type's requirements, only those that list values become labels. Kubelets also set deprecated labels.
    listed_values = {
        key: requirement.choose_value()
        for key, requirement in instance_type.requirements.items()
        if not requirement.complement
    }
    type_labels = {key: value for key, value in listed_values.items() if value}
    offering_labels = {key: value for key, value in ((ZONE, zone), (CAPACITY_TYPE, capacity_type)) if value}
    labels = {**claim.labels, **type_labels, **offering_labels, HOSTNAME: name, REGISTERED: "true", INITIALIZED: "true"}
    labels |= {deprecated: labels[key] for deprecated, key in NORMALIZED.items() if key in labels}

    taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in claim.taints)
    capacity: Resources = {resource: str(amount) for resource, amount in instance_type.capacity.items()}
    allocatable: Resources = {resource: str(amount) for resource, amount in instance_type.allocatable.items()}
    spec = NodeSpec(taints=taints, provider_id=f"{NEW_PROVIDER}{name}")
    status = NodeStatus(allocatable, capacity, conditions=(READY,))
    return Node(ObjectMeta(name, labels=labels), spec, status)


def _iter_daemonset_pods(cluster: Cluster, node: Node) -> Iterator[Pod]:
    """Yield a pod of each DaemonSet that should run on the node, bound to the node."""
    for pod in Daemons(get_daemonset_pods(cluster)).find_expected_pods(StateNode(node, claim=None)):
        meta = replace(pod.metadata, name=f"{pod.metadata.name}-{node.metadata.name}", uid="")
        yield replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node.metadata.name))
