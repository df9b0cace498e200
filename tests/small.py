"""Short manifests for tests."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def build_node(name: str, zone: str = "a", cpu: str = "4", pods: str = "10", **spec: Any) -> Json:
    """Build a node in a zone."""
    labels = {ZONE: zone, HOSTNAME: name, "pool": "p"}
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def build_pod_spec(cpu: str = "1", **spec: Any) -> Json:
    return {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}], **spec}


def build_pod(name: str, node_name: str = "", cpu: str = "1", owner: Json | None = None, **spec: Any) -> Json:
    """Build a pod of the namespace ``d`` with the label app=web. A bound pod is running and ready."""
    metadata: Json = {"name": name, "namespace": "d", "uid": f"uid-{name}", "labels": {"app": "web"}}
    if owner:
        metadata["ownerReferences"] = [{"controller": True, "apiVersion": "apps/v1", **owner}]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]} if node_name else {}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": build_pod_spec(cpu, nodeName=node_name, **spec),
        "status": status,
    }


REPLICA_SET = {"kind": "ReplicaSet", "name": "web-5f"}


def build_replica(name: str, node_name: str = "", cpu: str = "1", **spec: Any) -> Json:
    """Return a pod of Deployment d/web."""
    found = build_pod(name, node_name, cpu, REPLICA_SET, **spec)
    found["metadata"]["labels"]["pod-template-hash"] = "5f"
    return found


def build_workload(kind: str, name: str = "web", spec: Json | None = None, template: Json | None = None) -> Json:
    """Build a manifest of the namespace ``d`` whose pods have the label app=NAME."""
    made: Json = {"metadata": {"labels": {"app": name}}, "spec": template or build_pod_spec()}
    inner: Json = {"template": made, **(spec or {})}
    if kind == "Job":
        made["spec"]["restartPolicy"] = "Never"
    else:
        inner.setdefault("selector", {"matchLabels": {"app": name}})
    return {"kind": kind, "metadata": {"name": name, "namespace": "d"}, "spec": inner}


def build_budget(allowed: int, app: str = "web") -> Json:
    """Build a PodDisruptionBudget of an app that allows this many disruptions."""
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def build_spread(key: str = ZONE, app: str = "web", skew: int = 1) -> Json:
    """Build a hard spread constraint over the pods of an app."""
    selector = {"matchLabels": {"app": app}}
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}
