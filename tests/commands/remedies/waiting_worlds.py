"""Small random clusters, as documents, in which many pods wait for various reasons."""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CLASSES = {"high": 1000, "normal": 0, "low": -10}


def build_waiting_world(seed: int) -> tuple[list[Json], list[str]]:
    """Return the documents of a cluster, and its 5 to 40 waiting pods as ``namespace/name``."""
    random = Random(seed)
    nodes = [_build_node(random, number) for number in range(random.randint(3, 8))]
    names = [node["metadata"]["name"] for node in nodes]
    running = [
        _build_pod(
            f"run-{number}", "run", {"cpu": random.choice(("500m", "1", "1500m"))}, {"nodeName": random.choice(names)}
        )
        for number in range(random.randint(0, 2 * len(nodes)))
    ]
    waiting: list[Json] = []
    wanted = random.randint(5, 40)
    while len(waiting) < wanted:
        waiting += _build_workload(random, f"w{len(waiting)}", names)
    waiting = waiting[:wanted]
    classes = [{"kind": "PriorityClass", "metadata": {"name": name}, "value": value} for name, value in CLASSES.items()]
    keys = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in waiting]
    return [*nodes, *classes, *running, *waiting], keys


def _build_node(random: Random, number: int) -> Json:
    """Draw a node, which may be tainted or cordoned."""
    name = f"n{number}"
    labels = {HOSTNAME: name, ZONE: random.choice("abc"), "disk": random.choice(("ssd", "hdd"))}
    spec: Json = {}
    if random.random() < 0.2:
        spec["taints"] = [{"key": "team", "value": "db", "effect": "NoSchedule"}]
    if random.random() < 0.15:
        spec["unschedulable"] = True
    allocatable = {"cpu": random.choice(("2", "4")), "memory": "8Gi", "pods": random.choice(("4", "20"))}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def _build_workload(random: Random, name: str, nodes: list[str]) -> list[Json]:
    """Return 1 to 6 waiting pods of one ReplicaSet."""
    requests = {"cpu": random.choice(("300m", "1", "2500m", "5")), "memory": random.choice(("64Mi", "3Gi"))}
    priority_class = random.choice(("high", "normal", "normal", "low"))
    spec: Json = {"priorityClassName": priority_class, "priority": CLASSES[priority_class]}
    mine = {"matchLabels": {"app": name}}
    match random.randrange(9):
        case 0:
            spec["nodeSelector"] = {"disk": random.choice(("ssd", "sdd"))}
        case 1:
            spec["nodeSelector"] = {HOSTNAME: random.choice(nodes)}
        case 2:
            spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        case 3:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mine}
            ]
        case 4:
            term = {"labelSelector": mine, "topologyKey": HOSTNAME}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case 5:
            term = {"labelSelector": {"matchLabels": {"app": "run"}}, "topologyKey": ZONE}
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case 6:
            spec["preemptionPolicy"] = "Never"
    port = random.random() < 0.1
    return [
        _build_pod(f"{name}-{number}", name, requests, spec, port) for number in range(random.choice((1, 1, 2, 3, 6)))
    ]


def _build_pod(name: str, app: str, requests: Json, spec: Json, port: bool = False) -> Json:
    """Build a pod of the ReplicaSet ``app``. With ``port``, it uses host port 80."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"rs-{app}", "controller": True}
    metadata = {
        "name": name,
        "namespace": "a",
        "uid": f"uid-{name}",
        "labels": {"app": app},
        "ownerReferences": [owner],
    }
    container: Json = {"name": "c", "image": "i", "resources": {"requests": requests}}
    if port:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    priority = {} if "priority" in spec else {"priority": 0}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **priority, **spec}}
