"""Check that nodes launched by Karpenter take its pods by kube-scheduler's rules, except for the known differences."""

from __future__ import annotations

import json
from collections import Counter

from golden_cases import iter_family_lines
from karpenter_cases import build_objects

import kschedctl
from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.launching_pools import build_launched_nodes
from kschedctl.cluster import Cluster
from kschedctl.fixes.new_node import add_new_nodes
from kschedctl.reports.karpenter import Provisioning

DIFFERENT = (
    "node(s) didn't match PersistentVolume's node affinity",  # Karpenter ignores the host of local volumes
    "node(s) didn't match pod topology spread constraints",  # it counts domains that have no node, and hosts never
    "node(s) didn't have free ports for the requested pod ports",  # it looks at containers alone, not at sidecars
)

WITHOUT_CONSTRAINTS = "node(s) didn't match pod anti-affinity rules"
"""Pods with a claim whose volume cannot be found. Karpenter places them as if they had no topology."""


def is_known_to_differ(pod: Pod, message: str) -> bool:
    claims = any(volume.persistent_volume_claim for volume in pod.spec.volumes)
    return any(reason in message for reason in DIFFERENT) or (claims and WITHOUT_CONSTRAINTS in message)


def place_pod(pod: Pod, node: str) -> Pod:
    """Return the pod on a node."""
    phase = "Running" if node else "Pending"
    return replace(pod, spec=replace(pod.spec, node_name=node), status=replace(pod.status, phase=phase))


def place_pods_as_planned(cluster: Cluster, planned: dict[str, str]) -> Cluster:
    """Return the cluster with all pods where Karpenter plans them, and without the pods that it does not place."""
    changes = {
        (pod.metadata.namespace, pod.metadata.name): place_pod(pod, planned[pod.key]) if pod.key in planned else None
        for pod in cluster.pods
        if pod.key in planned or not pod.spec.node_name
    }
    return replace(cluster, pods=cluster.pods.apply_changes(changes))


def plan(report: Provisioning) -> dict[str, str]:
    """Return the node of each pod. New nodes are numbered within their pool in the order of the claims."""
    planned, numbers = {pod: node.node for node in report.existing_nodes for pod in node.pods}, Counter[str]()
    for claim in report.new_node_claims:
        numbers[claim.node_pool] += 1
        planned |= dict.fromkeys(claim.pods, f"{claim.node_pool}-new-{numbers[claim.node_pool]}")
    return planned


def test_pods_fit_where_karpenter_plans_them() -> None:
    """Each pod is explained alone, with all other pods in their planned places."""
    asked = 0
    for line in list(iter_family_lines("autoscaling/provisioning"))[::3]:
        case = json.loads(line)
        given = case["input"]
        cluster = kschedctl.Cluster.from_objects(build_objects(given))
        report = kschedctl.provision(cluster, given["instanceTypes"], given.get("options"), now=given["now"])
        launched = add_new_nodes(
            cluster, build_launched_nodes(cluster, report.new_node_claims, read_instance_types(given["instanceTypes"]))
        )
        planned = plan(report)
        full = place_pods_as_planned(launched, planned)
        for pod in [pod for pod in full.pods if "-new-" in planned.get(pod.key, "")]:
            free = place_pod(pod, "")
            key = (pod.metadata.namespace, pod.metadata.name)
            without = replace(full, pods=full.pods.apply_changes({key: free}))
            explained = kschedctl.explain(without, free)
            asked += 1
            if explained.verdict == "Unschedulable":
                assert is_known_to_differ(pod, explained.message), (case["id"], pod.key, explained.message)
    assert asked > 100


def test_pods_that_stay_pending_are_reported() -> None:
    """Karpenter launches a node for such a pod, but its local volume is on another node."""
    told = 0
    for line in list(iter_family_lines("autoscaling/provisioning"))[::3]:
        given = json.loads(line)["input"]
        cluster = kschedctl.Cluster.from_objects(build_objects(given))
        report = kschedctl.provision(cluster, given["instanceTypes"], given.get("options"), now=given["now"])
        launched = {pod for claim in report.new_node_claims for pod in claim.pods}
        assert report.still_pending.keys() <= launched
        told += any("PersistentVolume's node affinity" in message for message in report.still_pending.values())
    assert told
