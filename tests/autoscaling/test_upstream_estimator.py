"""Check how many nodes the pods need against upstream's own table of the estimator, under its names.

Upstream: estimator/binpacking_estimator_test.go, TestBinpackingEstimate (1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.autoscaling.cluster_autoscaler.estimator import Estimator, group_equivalent_pods
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.options import read_autoscaled_groups, read_autoscaler_options

Json = dict[str, Any]
NOW = "2026-06-01T12:00:00Z"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def build_node(name: str, cpu: int, memory: int, zone: str) -> Json:
    """Build a node with memory in MiB and room for ten pods."""
    offers = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": "10"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-06-01T10:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone}},
        "status": {"capacity": offers, "allocatable": offers, "conditions": [ready]},
    }


def build_pods(count: int, cpu: int, memory: int, prefix: str = "p", **spec: Any) -> list[Json]:
    """Build pods with memory in bytes."""
    port = spec.pop("hostPort", None)
    container: Json = {"name": "c", "resources": {"requests": {"cpu": f"{cpu}m", "memory": str(memory)}}}
    container |= {"ports": [{"containerPort": port, "hostPort": port}]} if port else {}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": prefix, "uid": prefix, "controller": True}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{prefix}{number}",
                "namespace": "universe",
                "uid": f"{prefix}{number}",
                "labels": {"app": "estimatee"},
                "creationTimestamp": "2026-06-01T11:00:00Z",
                "ownerReferences": [owner],
            },
            "spec": {"containers": [container], **spec},
            "status": {"conditions": [refused]},
        }
        for number in range(count)
    ]


def build_spread(key: str, skew: int, least: int) -> list[Json]:
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": least,
            "labelSelector": {"matchLabels": {"app": "estimatee"}},
        }
    ]


TABLE: dict[str, tuple[int, int, list[Json], int, int, int]] = {
    "simple resource-based binpacking": (1000, 2000, build_pods(10, 350, 1000), 0, 5, 10),
    "pods-per-node bound binpacking": (10000, 20000, build_pods(20, 10, 100), 0, 2, 20),
    "hostport conflict forces pod-per-node": (1000, 5000, build_pods(8, 200, 1000, hostPort=5555), 0, 8, 8),
    "limiter cuts binpacking": (1000, 5000, build_pods(20, 500, 1000), 5, 5, 10),
    "decreasing ordered pods are processed first": (
        *(1000, 5000, [*build_pods(10, 50, 1000, "low"), *build_pods(10, 500, 1000, "high")]),
        *(5, 5, 10),
    ),
    "hostname topology spreading with maxSkew=2 forces 2 pods/node": (
        *(1000, 5000, build_pods(8, 200, 200, topologySpreadConstraints=build_spread(HOSTNAME, 2, 1))),
        *(0, 4, 8),
    ),
    "zonal topology spreading with maxSkew=2 only allows 2 pods to schedule": (
        *(1000, 5000, build_pods(8, 20, 100, topologySpreadConstraints=build_spread(ZONE, 2, 1))),
        *(0, 1, 2),
    ),
    "hostname topology spreading with maxSkew=1 with a large scaleup handles scheduling pods retroactively": (
        *(1000, 5000, build_pods(12, 20, 100, topologySpreadConstraints=build_spread(HOSTNAME, 1, 3))),
        *(0, 3, 12),
    ),
}
"""Name -> CPU and memory of a new node, the pods, the maximum of nodes (0: any), new nodes, and pods on them."""


@pytest.mark.parametrize("name", TABLE)
def test_binpacking_estimate(name: str) -> None:
    """The cluster also has a node in another zone. As in upstream's test, the estimator is called directly."""
    cpu, memory, waiting, most, nodes, placed = TABLE[name]
    cluster = kschedctl.Cluster.from_objects([build_node("oldnode", 100, 100, "zone-jupiter"), *waiting])
    group = {
        "id": "g",
        "min": 0,
        "max": 100,
        "target": 0,
        "nodes": [],
        "template": build_node("t", cpu, memory, "zone-mars"),
    }
    loop = AutoscalerLoop.from_cluster(
        cluster, read_autoscaled_groups([group]), read_autoscaler_options({})[0], NOW, {}
    )
    template = loop.templates["g"].node
    estimator = Estimator(loop.snapshot, loop.get_template_row("g"), template, most or None, loop.get_position)
    estimate = estimator.estimate_node_count(group_equivalent_pods(loop.unschedulable))
    assert (estimate.nodes, len(estimate.pods)) == (nodes, placed)
    if name.startswith("decreasing"):
        assert {pod.metadata.name[:4] for pod in estimate.pods} == {"high"}
