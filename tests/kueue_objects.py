"""Objects of Kueue, and nodes with GPUs, for tests of waiting Workloads."""

from __future__ import annotations

from typing import Any

from kschedctl.api.json_values import JsonObject

NOW = "2026-03-01T00:00:00Z"
VERSION = "kueue.x-k8s.io/v1beta2"


def build_object(kind: str, name: str, spec: JsonObject) -> JsonObject:
    """Build an object of Kueue."""
    return {
        "apiVersion": VERSION,
        "kind": kind,
        "metadata": {"name": name, "uid": f"{kind}-{name}"},
        "spec": spec,
    }


def build_flavor(name: str) -> JsonObject:
    """Build a flavor for the nodes of a pool."""
    return build_object("ResourceFlavor", name, {"nodeLabels": {"pool": name}})


def build_queue(name: str = "cq", quota: int = 8, flavor: str = "gpu", **spec: Any) -> JsonObject:
    """Build a ClusterQueue with a quota of GPUs."""
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": quota}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": flavor, "resources": resources}]}]
    return build_object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def build_local_queue(name: str = "lq", queue: str = "cq") -> JsonObject:
    """Build a LocalQueue in namespace ai."""
    local_queue = build_object("LocalQueue", name, {"clusterQueue": queue})
    local_queue["metadata"]["namespace"] = "ai"
    return local_queue


def build_workload(name: str, gpus: int, pods: int = 1, created: str = "2026-02-01", queue: str = "lq") -> JsonObject:
    """Build a Workload of some pods with ``gpus`` each."""
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    workload = build_object("Workload", name, {"queueName": queue, "podSets": [pod_set]})
    workload["metadata"] |= {"namespace": "ai", "creationTimestamp": f"{created}T00:00:00Z"}
    return workload


def build_node(name: str, gpus: int, pool: str = "gpu") -> JsonObject:
    """Build a node with GPUs."""
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "20", "nvidia.com/gpu": str(gpus)}
    metadata = {"name": name, "labels": {"pool": pool, "kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def build_admitted_workload(name: str, gpus: int, **arguments: Any) -> JsonObject:
    """Build a Workload of one pod that runs in ClusterQueue ``queue`` (default cq), in flavor gpu."""
    queue = arguments.pop("cluster_queue", "cq")
    workload = build_workload(name, gpus, **arguments)
    usage = {"flavors": {"nvidia.com/gpu": "gpu"}, "resourceUsage": {"nvidia.com/gpu": str(gpus)}, "count": 1}
    since = {"status": "True", "reason": "Admitted", "lastTransitionTime": "2026-02-01T00:00:00Z"}
    workload["status"] = {
        "admission": {"clusterQueue": queue, "podSetAssignments": [{"name": "main", **usage}]},
        "conditions": [{"type": "QuotaReserved", **since}, {"type": "Admitted", **since}],
    }
    return workload


def build_priority_class(name: str, value: int) -> JsonObject:
    """Build a WorkloadPriorityClass."""
    return {"apiVersion": VERSION, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def build_manifest(gpus: int, pods: int, kind: str = "Job", queue: str = "lq") -> JsonObject:
    """Build a manifest of some pods with ``gpus`` each."""
    amounts = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "c", "image": "train", "resources": {"requests": amounts, "limits": amounts}}
    template: JsonObject = {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": [container]}}
    spec: JsonObject = {"replicas": pods, "selector": {"matchLabels": {"app": "train"}}, "template": template}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": pods, "template": template}
    metadata = {"name": "train", "namespace": "ai", "labels": {"kueue.x-k8s.io/queue-name": queue}}
    return {"apiVersion": "batch/v1" if kind == "Job" else "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


QUEUES = (build_flavor("gpu"), build_queue(), build_local_queue())
"""A LocalQueue with 8 GPUs of flavor gpu."""
NODES = (build_node("a", 4), build_node("b", 4))
