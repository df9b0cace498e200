"""Small clusters with pod groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kschedctl.cluster import Cluster

Json = dict[str, Any]
GATES = {"GenericWorkload": True, "GangScheduling": True}


def build_node(name: str, cpu: int = 4, **labels: str) -> Json:
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def build_pod(name: str, group: str = "", cpu: int = 1, priority: int = 0, bound: str = "", **spec: Any) -> Json:
    """Build a pod that requests ``cpu`` CPUs, optionally in a group and bound to a node."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    spec = {"containers": [container], "priority": priority, "nodeName": bound, **spec}
    spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "a", "uid": f"uid-{name}"}, "spec": spec}


def build_gang(name: str, count: int, topology: str = "", **spec: Any) -> Json:
    """Build a group of which ``count`` pods must fit."""
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}, **spec}
    spec |= {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
    metadata = {"name": name, "namespace": "a", "uid": f"uid-of-{name}"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def build_cluster(objects: Iterable[Json], gates: Mapping[str, bool] = GATES) -> Cluster:
    return Cluster.from_objects(objects, feature_gates=gates)
