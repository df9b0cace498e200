"""Check the fix for each single obstacle of a pod, by its sentence."""

from __future__ import annotations

from typing import Any

import pytest
from remedy_checks import build_trials, search_all_fixes
from remedy_worlds import DISK, GPU, HOSTNAME, ZONE, Json, World, build_namespace

TEAM = {"key": "team", "value": "data", "effect": "NoSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def build_node(name: str, zone: str = "a", *taints: Json, **allocatable: str) -> Json:
    labels = {ZONE: zone, HOSTNAME: name, DISK: "ssd"}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status}


def build_pod(name: str, where: str = "d", node_name: str = "", cpu: str = "1", **spec: Any) -> Json:
    labels = {"app": name.partition("-")[0], "pod-template-hash": "new" if name == "asked" else "old"}
    owner = {"kind": "ReplicaSet", "name": f"{labels['app']}-old", "controller": True}
    metadata = {"name": name, "namespace": where, "uid": name, "labels": labels, "ownerReferences": [owner]}
    own = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], "nodeName": node_name, **spec}
    return {"kind": "Pod", "metadata": metadata, "spec": own}


def build_asked_pod(**spec: Any) -> Json:
    return build_pod("asked", **spec)


def build_affinity(labels: Json, key: str = ZONE, **scope: Any) -> Json:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **scope}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def build_anti_affinity(labels: Json, key: str = HOSTNAME) -> Json:
    return {
        "affinity": {"podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": labels}, "topologyKey": key}]}}
    }


def build_node_name_affinity(*names: str) -> Json:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}}


def build_spread(**fields: Any) -> Json:
    own = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [{"labelSelector": {"matchExpressions": [IN_APP]}, **own}]}


IN_APP = {"key": "app", "operator": "In", "values": ["asked", "web"]}
TYPO = {"tolerations": [{"key": "tean", "operator": "Equal", "value": "data", "effect": "NoSchedule"}]}
BOTH = {**TEAM, "effect": "NoExecute"}
CLOUD = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
WEB = build_pod("web-1", node_name="n1")
ELSEWHERE = [build_namespace("shop", team="shop"), build_pod("db-1", "shop", "n1")]
TWO_ZONES = [build_node("n1"), build_node("n2", "b", TEAM), WEB]
SOME_GPU = {"containers": [{"name": "c", "resources": {"limits": {GPU: "1"}}}]}
MARKED = build_node("n1")
MARKED["metadata"]["labels"][f"{GPU}.present"] = "true"
POD_LEVEL = {"resources": {"requests": {"cpu": "6"}}, "containers": [{"name": "c"}]}
PORTS = {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}], "hostNetwork": True}
BOTH_HALF_FULL = [
    build_node("n1"),
    build_node("n2"),
    build_pod("web-2", node_name="n2", cpu="2"),
    build_pod("web-3", node_name="n1", cpu="2"),
]

CASES: dict[str, tuple[str, Json, list[Json]]] = {
    "a typo in the key of a toleration": (
        "correct the toleration from tean=data:NoSchedule to team=data:NoSchedule, the node's taint",
        build_asked_pod(**TYPO),
        [build_node("n1", "a", TEAM)],
    ),
    "a toleration with the value in its key": (
        "correct the toleration from key team/data to key team and value data, the node's taint",
        build_asked_pod(tolerations=[{"key": "team/data", "operator": "Exists", "effect": "NoSchedule"}]),
        [build_node("n1", "a", TEAM)],
    ),
    "a toleration of another effect": (
        "correct the toleration from team=data:NoExecute to team=data:NoSchedule, the node's taint",
        build_asked_pod(tolerations=[{**BOTH, "operator": "Equal"}]),
        [build_node("n1", "a", TEAM)],
    ),
    "no node is initialized": (
        f"start the cloud controller manager: both nodes still have the taint {CLOUD['key']}, which it removes",
        build_asked_pod(),
        [build_node("n1", "a", CLOUD), build_node("n2", "b", CLOUD)],
    ),
    "two effects of one taint": (
        "tolerate the taint team=data",
        build_asked_pod(),
        [build_node("n1", "a", TEAM, BOTH)],
    ),
    "a node that is not there": (
        "require node node-1 instead of node node1",
        build_asked_pod(**build_node_name_affinity("node1")),
        [build_node("node-1")],
    ),
    "two names at once": (
        "remove node n2 from the required node affinity",
        build_asked_pod(**build_node_name_affinity("n1", "n2")),
        [build_node("n1")],
    ),
    "a resource that no node has": (
        f"drop the request for {GPU}, which no node offers",
        build_asked_pod(**SOME_GPU),
        [build_node("n1")],
    ),
    "a device plugin that publishes nothing": (
        f"check the device plugin of {GPU} on node n1, which publishes none despite the label {GPU}.present=true",
        build_asked_pod(**SOME_GPU),
        [MARKED],
    ),
    "a request for the pod as a whole": (
        "request 3 CPUs instead of 6 for the pod as a whole",
        build_asked_pod(**POD_LEVEL),
        [build_node("n1"), WEB],
    ),
    "a port in the host's network": (
        "use host port 81 instead of 80, and make the program listen on it",
        build_asked_pod(**PORTS),
        [build_node("n1"), build_pod("web-1", node_name="n1", **PORTS)],
    ),
    "a pod that can go elsewhere": ("move d/web-2 from n2 to n1", build_asked_pod(cpu="3"), BOTH_HALF_FULL),
    "a typo in the labels of pods": (
        "require pods with app=web instead of app=wbe",
        build_asked_pod(**build_affinity({"app": "wbe"})),
        [build_node("n1"), WEB],
    ),
    "pods of another namespace": (
        "also match pods in namespace shop",
        build_asked_pod(**build_affinity({"app": "db"})),
        [build_node("n1"), *ELSEWHERE],
    ),
    "a namespace that is not there": (
        "match pods in namespace shop instead of shpo",
        build_asked_pod(**build_affinity({"app": "db"}, namespaces=["shpo"])),
        [build_node("n1"), *ELSEWHERE],
    ),
    "a namespace without the label": (
        "label namespace shop with tier=data",
        build_asked_pod(**build_affinity({"app": "db"}, namespaceSelector={"matchLabels": {"tier": "data"}})),
        [build_node("n1"), *ELSEWHERE],
    ),
    "a rolling update": (
        "keep the pod away only from pods of its own revision (matchLabelKeys: pod-template-hash, term 1)",
        build_asked_pod(**build_anti_affinity({"app": "web"})),
        [build_node("n1"), WEB],
    ),
    "a domain that it cannot go to": (
        f"spread across {ZONE}, counting only nodes whose taints the pod tolerates (nodeTaintsPolicy: Honor)",
        build_asked_pod(**build_spread()),
        TWO_ZONES,
    ),
    "too few domains": (
        f"lower minDomains from 3 to 2 for {ZONE}",
        build_asked_pod(**build_spread(minDomains=3)),
        [build_node("n1"), build_node("n2", "b"), WEB, build_pod("web-2", node_name="n2")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_single_obstacle_is_removed(case: str) -> None:
    sentence, pending, others = CASES[case]
    remedies = search_all_fixes(build_trials(World([*others, pending], admit=False)), 1)
    assert sentence in [change.text for trial in remedies for change in trial.changes]
