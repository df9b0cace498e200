"""Small objects, events that may happen to them, and the answers of ``wakes`` for pod d/p."""

from __future__ import annotations

from typing import Any

import kschedctl

Json = dict[str, Any]


def build_node(name: str = "n1", labels: Json | None = None, cpu: str = "1", **spec: Any) -> Json:
    allocatable = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    return {"kind": "Node", "metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}}


def build_pod(name: str = "p", labels: Json | None = None, cpu: str = "100m", **spec: Any) -> Json:
    """Build a pod of the namespace ``d`` with one container."""
    containers = spec.pop("containers", [{"name": "c", "resources": {"requests": {"cpu": cpu}}}])
    metadata = {"name": name, "namespace": "d", "uid": name, "labels": labels or {}}
    status = spec.pop("status", {})
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}, "status": status}


def build_anti_affinity(app: str, key: str = "zone") -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def build_addition(new: Json) -> Json:
    return {"action": "Add", "new": new}


def build_update(old: Json, new: Json) -> Json:
    return {"action": "Update", "old": old, "new": new}


def build_deletion(old: Json) -> Json:
    return {"action": "Delete", "old": old}


def replay_event(event: Json, *objects: Json, version: str = "1.36", gates: dict[str, bool] | None = None) -> Json:
    cluster = kschedctl.Cluster.from_objects(objects, feature_gates=gates, kube_version=version)
    return kschedctl.wakes(cluster, "d/p", event).to_dict()
