"""Write a big synthetic cluster in the form of `kubectl get -A -o json --show-managed-fields`.

    python tests/benchmarks/make_cluster.py OUTDIR [--nodes 5000] [--pods 150000] [--seed 0] [--indent]

One file a kind (nodes.json, pods.json, ...), each a `v1 List`; pods take some 4 KB each. The same arguments give the
same bytes. Pods are bound within the nodes' allocatable, spread over zones; the pods `bench/pending-<cause>` wait.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Object: TypeAlias = dict[str, Any]

REGION = "eu-west-1"
ZONES = tuple(f"{REGION}{letter}" for letter in "abcd")
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EPOCH = 1_780_000_000
SAFE = "bcdfghjklmnpqrstvwxz2456789"
TEAMS = (
    *("ads", "auth", "billing", "cart", "catalog", "chat", "crm", "data", "edge", "fraud"),
    *("geo", "ingest", "mail", "media", "ml", "orders", "payments", "search", "shipping", "web"),
)
APPS = ("api", "worker", "cache", "gateway", "indexer", "scheduler", "consumer", "frontend", "sync", "stream")
PRIORITIES = {"bulk": -100, "standard": 0, "high": 1000, "critical": 100_000}
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
DRIVER = "ebs.csi.aws.com"
SHOP = "registry.example.com/bench/shop"


@dataclass(frozen=True)
class Pool:
    name: str
    share: float
    cores: int
    gibibytes: int
    instance_type: str
    gpus: int = 0
    taint: str = ""


POOLS = (
    Pool("compute", 0.20, 32, 64, "c7i.8xlarge"),
    Pool("general", 0.60, 16, 64, "m7i.4xlarge"),
    Pool("gpu", 0.04, 32, 256, "g6.8xlarge", gpus=8, taint="nvidia.com/gpu"),
    Pool("memory", 0.10, 16, 128, "r7i.4xlarge"),
    Pool("spot", 0.06, 16, 64, "m6i.4xlarge", taint="example.com/spot"),
)
TAINTED = {pool.name: pool.taint for pool in POOLS if pool.taint}


@dataclass
class Workload:
    """One template and its replicas. `spec` is merged into the common pod spec."""

    kind: str
    namespace: str
    name: str
    replicas: int
    image: str
    cpu: int  # millicores
    memory: int  # MiB
    gpus: int = 0
    pools: tuple[str, ...] = ("compute", "general", "memory")
    priority_class: str = "standard"
    apart: bool = False  # at most one replica a node
    spec: Object = field(default_factory=dict)
    hash: str = ""
    uid: str = ""

    @property
    def owner(self) -> str:
        """Return the name of the controller that owns the pods."""
        return f"{self.name}-{self.hash}" if self.kind == "ReplicaSet" else self.name

    @property
    def labels(self) -> Object:
        """The labels of the workload's pods."""
        own = "pod-template-hash" if self.kind == "ReplicaSet" else "controller-revision-hash"
        return {"app.kubernetes.io/name": self.name, own: self.hash} | (
            {"app.kubernetes.io/component": self.name.split("-")[0], "team": self.namespace}
        )

    @property
    def selector(self) -> Object:
        return {"matchLabels": {"app.kubernetes.io/name": self.name}}


class Maker:
    """A source of random but repeatable identities."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.version = 1_000_000

    def word(self, length: int) -> str:
        return "".join(self.random.choices(SAFE, k=length))

    def uid(self) -> str:
        digits = f"{self.random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def digest(self) -> str:
        return f"{self.random.getrandbits(256):064x}"

    def time(self) -> str:
        return datetime.fromtimestamp(EPOCH + self.random.randrange(5_000_000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def meta(self, name: str, namespace: str = "", **extra: Any) -> Object:
        self.version += self.random.randrange(1, 40)
        base = {"name": name, "uid": self.uid(), "resourceVersion": str(self.version), "creationTimestamp": self.time()}
        return base | ({"namespace": namespace} if namespace else {}) | {k: v for k, v in extra.items() if v}


def fields_v1(value: Any, depth: int = 2) -> Object:
    """Return the field set that an API server keeps in managedFields for `value`, down to `depth`."""
    if depth and isinstance(value, dict):
        return {f"f:{key}": fields_v1(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list) and value and isinstance(value[0], dict):
        keys = [next((key for key in ("name", "type", "uid", "ip") if key in item), None) for item in value]
        named = [(f"k:{dump({key: item[key]}, False)}", item) for key, item in zip(keys, value, strict=True) if key]
        return {name: {".": {}, **fields_v1(item, depth - 1)} for name, item in named}
    return {}


def managed(value: Object, manager: str, time: str, subresource: str = "") -> Object:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1"}
    return entry | {"fieldsV1": fields_v1(value)} | ({"subresource": subresource} if subresource else {})


# --- nodes ---------------------------------------------------------------------------------------------------------


@dataclass
class Nodes:
    """Names, pools and zones of nodes. `free` is (N, 4) int64 with the free millicores, MiB, GPUs and pods."""

    names: list[str]
    pools: list[Pool]
    zones: NDArray[np.int64]
    total: NDArray[np.int64]
    free: NDArray[np.int64]
    images: list[dict[str, None]]

    @classmethod
    def of_size(cls, count: int) -> Nodes:
        """Build this number of nodes, spread over the pools by their shares."""
        sizes = [max(1, round(pool.share * count)) for pool in POOLS]
        sizes[1] += count - sum(sizes)
        if sizes[1] < 1:
            raise ValueError(f"{count} nodes are too few: there are {len(POOLS)} pools")
        pools = [pool for pool, size in zip(POOLS, sizes, strict=True) for _ in range(size)]
        ranks = [rank for size in sizes for rank in range(size)]
        zones = np.array([rank % len(ZONES) for rank in ranks])
        names = [f"{pool.name}-{rank:05d}.{REGION}.internal" for pool, rank in zip(pools, ranks, strict=True)]
        total = np.array([(p.cores * 1000 - 90, p.gibibytes * 1024 - 1536, p.gpus, 110) for p in pools])
        return cls(names, pools, zones, total, total.copy(), [{} for _ in pools])

    def place(self, work: Workload, rng: np.random.Generator) -> list[int]:
        """Bind the replicas of a workload, and return the row of the node of each replica, or -1 if no node has room.

        Each round binds at most one replica per node, to zones in turn and to emptier nodes first.
        """
        request = np.array([work.cpu, work.memory, work.gpus, 1])
        allowed = np.array([pool.name in work.pools for pool in self.pools])
        turns = rng.permutation(len(ZONES))
        rows: list[int] = []
        while len(rows) < work.replicas:
            fits = np.flatnonzero(allowed & (self.free >= request).all(axis=1))
            if not len(fits):
                break
            used = 1 - (self.free[fits, :2] / self.total[fits, :2]).min(axis=1)
            fits = fits[np.lexsort((used + 0.3 * rng.random(len(fits)), self.zones[fits]))]
            sizes = np.bincount(self.zones[fits], minlength=len(ZONES))
            rank = np.arange(len(fits)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            even = (rank < sizes[sizes > 0].min()) | work.apart
            order = np.lexsort((turns[self.zones[fits[even]]], rank[even]))
            turn = fits[even][order][: work.replicas - len(rows)]
            self.free[turn] -= request
            rows += turn.tolist()
            if work.apart:
                break
        for row in set(rows):
            self.images[row][work.image] = None
        return rows + [-1] * (work.replicas - len(rows))


def build_node(nodes: Nodes, row: int, catalogue: list[str], make: Maker) -> Object:
    """Build a node with labels, taints, images and conditions."""
    name, pool, zone = nodes.names[row], nodes.pools[row], ZONES[nodes.zones[row]]
    cpu, memory, gpus, pods = (int(value) for value in nodes.total[row])
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", HOSTNAME: name, ZONE: zone}
    labels |= {"topology.kubernetes.io/region": REGION, "node.kubernetes.io/instance-type": pool.instance_type}
    labels |= {"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "example.com/pool": pool.name}
    gpu = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    taints = [{"key": pool.taint, "value": "true", "effect": "NoSchedule"}] if pool.taint else []
    spec: Object = {
        "providerID": f"aws:///{zone}/i-{make.digest()[:17]}",
        "podCIDR": f"10.{row // 256}.{row % 256}.0/24",
    }
    if row % 200 == 17:
        spec["unschedulable"] = True
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    time = make.time()
    names = list(nodes.images[row])[:50]
    names += [
        image for image in make.random.sample(catalogue, min(50, len(catalogue))) if image not in nodes.images[row]
    ]
    common = {"ephemeral-storage": "93492209510", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": str(pods)}
    status: Object = {
        "capacity": {"cpu": str(pool.cores), "memory": f"{pool.gibibytes * 1024 * 1024}Ki", **common, **gpu},
        "allocatable": {"cpu": f"{cpu}m", "memory": f"{memory * 1024}Ki", **common, **gpu},
        "addresses": [{"type": "InternalIP", "address": address(row)}, {"type": "Hostname", "address": name}],
        "conditions": [
            node_condition(kind, time) for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": [image_status(image) for image in names[:50]],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": make.uid(),
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12.40",
            "kubeProxyVersion": "v1.36.2",
            "kubeletVersion": "v1.36.2",
            "machineID": make.digest()[:32],
            "operatingSystem": "linux",
            "osImage": "Bottlerocket OS 1.44",
            "systemUUID": make.uid(),
        },
    }
    meta = make.meta(name, labels=labels, annotations={"node.alpha.kubernetes.io/ttl": "30"})
    meta["annotations"]["volumes.kubernetes.io/controller-managed-attach-detach"] = "true"
    meta["managedFields"] = [managed({"metadata": {"labels": labels}, "spec": spec}, "kubelet", time)]
    meta["managedFields"].append(managed({"status": status}, "kubelet", time, "status"))
    return obj("v1", "Node", meta, spec=spec | ({"taints": taints} if taints else {}), status=status)


def address(row: int) -> str:
    return f"172.{16 + row // 65536}.{row // 256 % 256}.{row % 256}"


def node_condition(kind: str, time: str) -> Object:
    reason = "KubeletReady" if kind == "Ready" else f"KubeletHasNo{kind}"
    times = {"lastHeartbeatTime": time, "lastTransitionTime": time}
    return {"type": kind, "status": str(kind == "Ready"), "reason": reason, "message": f"kubelet: {reason}", **times}


def image_status(image: str) -> Object:
    number = sum(map(ord, image)) * 7919 % 1_000_003
    return {"names": [image_id(image), image], "sizeBytes": 5_000_000 + number * 900}


def image_id(image: str) -> str:
    return f"{image.rsplit(':', 1)[0]}@sha256:{random.Random(image).getrandbits(256):064x}"


# --- workloads -----------------------------------------------------------------------------------------------------


def build_spread(selector: Object, key: str, when: str = "DoNotSchedule") -> Object:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}


def apart(selector: Object) -> Object:
    term = {"labelSelector": selector, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near(kind: str, selector: Object, key: str, required: bool = False, **term: Any) -> Object:
    """Build a pod affinity or anti-affinity with one term."""
    target = {"labelSelector": selector, "topologyKey": key} | term
    if required:
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [target]}}
    weighted = {"weight": 100, "podAffinityTerm": target}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def node_terms(pools: Iterable[str]) -> Object:
    match = {"matchExpressions": [{"key": "example.com/pool", "operator": "In", "values": list(pools)}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [match]}}


def tolerate(key: str) -> Object:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def draw_constraints(work: Workload, before: Workload | None, nodes: int, make: Maker) -> None:
    """Draw the pools, spread constraints, affinity and priority of a workload."""
    roll, selector = make.random.random, work.selector
    where = roll()
    if where < 0.03:
        work.pools, work.gpus, work.replicas = ("gpu",), 1, min(work.replicas, max(1, nodes // 400))
        work.spec["tolerations"] = [tolerate(TAINTED["gpu"])]
    elif where < 0.07:
        work.pools, work.replicas = ("spot",), min(work.replicas, max(1, nodes // 50))
        work.spec |= {"nodeSelector": {"example.com/pool": "spot"}, "tolerations": [tolerate(TAINTED["spot"])]}
    elif where < 0.20:
        work.pools = ("general",)
        work.spec["nodeSelector"] = {"example.com/pool": "general"}
    elif where < 0.30:
        work.pools = ("compute", "general")
        work.spec["affinity"] = {"nodeAffinity": node_terms(work.pools)}
    if roll() < 0.30:
        when = "DoNotSchedule" if roll() < 0.25 else "ScheduleAnyway"
        work.spec["topologySpreadConstraints"] = [
            build_spread(selector, ZONE, when),
            build_spread(selector, HOSTNAME, "ScheduleAnyway"),
        ]
    affinity, what = work.spec.setdefault("affinity", {}), roll()
    if what < 0.05:
        work.apart, work.replicas = True, min(work.replicas, max(3, nodes // 100))
        affinity |= apart(selector)
    elif what < 0.30:
        affinity |= near("podAntiAffinity", selector, HOSTNAME)
    elif what < 0.36 and before:
        affinity |= near("podAffinity", before.selector, ZONE)
    elif what < 0.38 and before and before.replicas >= len(ZONES):
        affinity |= near("podAffinity", before.selector, ZONE, required=True)
    work.priority_class = make.random.choices(list(PRIORITIES), weights=(10, 70, 15, 5))[0]


def workloads(nodes: int, pods: int, make: Maker) -> list[Workload]:
    """Build DaemonSets, Deployments and StatefulSets with `pods` replicas in total and long-tailed sizes."""
    found = [daemon(name, cpu, memory, nodes) for name, cpu, memory in (("kube-proxy", 100, 64), ("cni", 50, 128))]
    found += [daemon("node-exporter", 20, 64, nodes), build_spread_affinity_workload(nodes)]
    rest = pods - sum(work.replicas for work in found)
    count = min(2000, max(1, rest // 25))
    weights = [make.random.lognormvariate(0, 1.2) for _ in range(count)]
    previous: dict[str, Workload] = {}
    for number, weight in enumerate(weights):
        team = TEAMS[number % len(TEAMS)]
        stateful = make.random.random() < 0.08
        replicas = max(1, round(weight / sum(weights) * rest))
        sizes = (50, 100, 100, 250) if weight > 3 else (50, 100, 100, 250, 250, 500, 500, 1000, 1000, 2000)
        cpu = make.random.choice(sizes)
        name = f"{APPS[number // len(TEAMS) % len(APPS)]}-{number:04d}"
        image = f"registry.example.com/{team}/{name}:v{make.random.randrange(9)}.{make.random.randrange(40)}"
        kind = "StatefulSet" if stateful else "ReplicaSet"
        work = Workload(kind, team, name, min(replicas, 9) if stateful else replicas, image, cpu, cpu * 2 + 64)
        draw_constraints(work, previous.get(team), nodes, make)
        previous[team] = work
        found.append(work)
    adjust_replicas(found, pods)
    shrink(found, 9000 * nodes)
    for work in found:
        work.hash, work.uid = make.word(10), make.uid()
    return found


def adjust_replicas(found: list[Workload], pods: int) -> None:
    """Adjust the replicas of plain workloads so that the total matches ``pods`` after rounding and caps."""
    plain = [work for work in found if work.kind == "ReplicaSet" and not work.apart and len(work.pools) > 1] or found[
        -1:
    ]
    missing = pods - sum(work.replicas for work in found)
    for number, work in enumerate(plain):
        share = missing // (len(plain) - number)
        step = max(share, 1 - work.replicas)
        work.replicas, missing = work.replicas + step, missing - step


def shrink(found: list[Workload], most: int) -> None:
    """Scale CPU requests down if they exceed `most` millicores in total."""
    wanted = sum(work.cpu * work.replicas for work in found)
    for work in found:
        work.cpu = work.cpu * min(most, wanted) // wanted


def daemon(name: str, cpu: int, memory: int, nodes: int) -> Workload:
    """Build a DaemonSet that runs on all nodes."""
    host: Object = {"hostNetwork": True} if name != "cni" else {}
    spec = {"tolerations": [{"operator": "Exists"}], **host}
    pools = tuple(pool.name for pool in POOLS)
    image = f"registry.example.com/{name}:v1.36.2"
    priority = "system-node-critical"
    return Workload(
        "DaemonSet", "kube-system", name, nodes, image, cpu, memory, 0, pools, priority, apart=True, spec=spec
    )


def build_spread_affinity_workload(nodes: int) -> Workload:
    """Build a workload whose next replica would be the pod ``bench/pending-spread-affinity``."""
    work = Workload("ReplicaSet", "bench", "spread-affinity", max(1, nodes // 10), f"{SHOP}:v1", 250, 256, apart=True)
    prefer = near("podAffinity", {"matchLabels": {"app.kubernetes.io/component": "cache"}}, ZONE, namespaceSelector={})
    constraints = [build_spread(work.selector, ZONE), build_spread(work.selector, HOSTNAME)]
    work.spec = {"topologySpreadConstraints": constraints, "affinity": apart(work.selector) | prefer}
    return work


# --- pods ----------------------------------------------------------------------------------------------------------


def containers(work: Workload) -> list[Object]:
    """Build the containers of a workload's pods."""
    gpu = {"nvidia.com/gpu": str(work.gpus)} if work.gpus else {}
    requests = {"cpu": f"{work.cpu}m", "memory": f"{work.memory}Mi", **gpu}
    probe = {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "timeoutSeconds": 1}
    port = {"name": "http", "containerPort": 8080, "protocol": "TCP"}
    if work.name == "node-exporter":
        port |= {"containerPort": 9100, "hostPort": 9100}
    references = {"POD_NAME": "metadata.name"}
    env: list[Object] = [{"name": "LOG_LEVEL", "value": "info"}, {"name": "SERVICE", "value": work.name}]
    env += [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in references.items()
    ]
    token = {"name": "kube-api-access-@TOKEN@", "readOnly": True}
    mounts: list[Object] = [{"name": "data", "mountPath": "/data"}] if work.kind == "StatefulSet" else []
    main = {
        "name": work.name,
        "image": work.image,
        "args": ["--listen=:8080", "--config=/etc/config/config.yaml"],
        "ports": [port],
        "env": env,
        "resources": {"limits": {"memory": f"{work.memory}Mi", **gpu}, "requests": requests},
        "volumeMounts": [*mounts, token | {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "livenessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
    }
    return [main]


def token_volume() -> Object:
    """Build the volume with the token of the service account."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    sources = [token, {"configMap": ca}, {"downwardAPI": {"items": [namespace]}}]
    return {"name": "kube-api-access-@TOKEN@", "projected": {"sources": sources, "defaultMode": 420}}


def build_pod_spec(work: Workload) -> Object:
    """Build the spec of the pod template with the API server's additions.

    ``@WORD@`` marks the values that differ between pods.
    """
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-@NAME@"}}
    waits = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    spec = work.spec | {"tolerations": [*work.spec.get("tolerations", []), *waits]}
    if work.kind == "DaemonSet":
        field_term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["@NODE@"]}]}
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field_term]}}
        spec |= {"affinity": {"nodeAffinity": terms}, "tolerations": work.spec["tolerations"]}
    return {
        "volumes": ([claim] if work.kind == "StatefulSet" else []) + [token_volume()],
        "containers": containers(work),
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "nodeName": "@NODE@",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "schedulerName": "default-scheduler",
        "priorityClassName": work.priority_class,
        "priority": (PRIORITIES | SYSTEM)[work.priority_class],
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    } | {key: value for key, value in spec.items() if value}


def running(work: Workload) -> Object:
    """Build the status of a running pod."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    times = {"lastProbeTime": None, "lastTransitionTime": "@TIME@"}
    state: Object = {"name": work.name, "ready": True, "restartCount": 0, "started": True, "lastState": {}}
    state |= {"image": work.image, "imageID": image_id(work.image), "containerID": "containerd://@CONTAINER@"}
    address_of_pod = "@HOST@" if work.spec.get("hostNetwork") else "@IP@"
    return {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", **times} for kind in kinds],
        "hostIP": "@HOST@",
        "hostIPs": [{"ip": "@HOST@"}],
        "podIP": address_of_pod,
        "podIPs": [{"ip": address_of_pod}],
        "startTime": "@TIME@",
        "containerStatuses": [state | {"state": {"running": {"startedAt": "@TIME@"}}}],
        "qosClass": "Burstable",
    }


def build_pod(work: Workload) -> Object:
    """Build the template of a workload's pods, in which `@WORD@` marks the values that differ between pods."""
    labels = work.labels | {ZONE: "@ZONE@", "topology.kubernetes.io/region": REGION}
    if work.kind == "StatefulSet":
        labels |= {"statefulset.kubernetes.io/pod-name": "@NAME@", "apps.kubernetes.io/pod-index": "@INDEX@"}
    owner = {"apiVersion": "apps/v1", "kind": work.kind, "name": work.owner, "uid": work.uid}
    meta: Object = {"name": "@NAME@", "generateName": f"{work.owner}-", "namespace": work.namespace, "uid": "@UID@"}
    meta |= {"resourceVersion": "@VERSION@", "generation": 1, "creationTimestamp": "@TIME@", "labels": labels}
    meta["annotations"] = {"prometheus.io/scrape": "true"}
    meta["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    spec, status = build_pod_spec(work), running(work)
    set_by_owner = {key: value for key, value in spec.items() if key in work.spec or key == "containers"}
    meta["managedFields"] = [
        managed({"metadata": {"labels": work.labels}, "spec": set_by_owner}, "kube-controller-manager", "@TIME@"),
        managed({"status": dict.fromkeys(status, 0)}, "kubelet", "@TIME@", "status"),
    ]
    return obj("v1", "Pod", meta, spec=spec, status=status)


@dataclass(frozen=True, order=True)
class Replica:
    namespace: str
    name: str
    work: int
    row: int
    index: int


def replicas(works: list[Workload], nodes: Nodes, rng: np.random.Generator, make: Maker) -> list[Replica]:
    """Return the replicas of all workloads with their node rows, sorted by namespace and name as by the API server."""
    found = []
    words: set[str] = set()
    for number, work in enumerate(works):
        for index, row in enumerate(nodes.place(work, rng)):
            suffix = str(index)
            while work.kind != "StatefulSet" and (suffix in words or len(suffix) < 5):
                suffix = make.word(5)
            words.add(suffix)
            name = f"{work.owner}-{suffix}"
            found.append(Replica(work.namespace, name, number, row, index))
    return sorted(found)


# --- pending pods --------------------------------------------------------------------------------------------------


def pending_pods(make: Maker) -> Iterator[Object]:
    """Yield one pending pod per cause, sorted by name."""
    plain = {"cpu": 500, "memory": 512}
    causes: dict[str, tuple[Object, Object]] = {
        "cpu": ({"cpu": 500_000, "memory": 512}, {}),
        "gated": (plain, {"schedulingGates": [{"name": "example.com/quota"}]}),
        "gpu-taint": (plain | {"gpus": 1}, {}),
        "host-port": (plain, {}),
        "node-selector": (plain, {"nodeSelector": {"example.com/pool": "genral"}}),
        "plain": (plain, {}),
        "pod-affinity": (
            plain,
            {"affinity": near("podAffinity", {"matchLabels": {"app": "nobody"}}, ZONE, required=True)},
        ),
        "preemption": (
            {"cpu": 13_000, "memory": 32_768, "priority_class": "critical"},
            {"nodeSelector": {"example.com/pool": "general"}},
        ),
        "scheduler-name": (plain, {"schedulerName": "nobody"}),
        "spread-affinity": (plain, {}),
    }
    for cause, (size, spec) in causes.items():
        name = f"pending-{cause}"
        work = Workload("ReplicaSet", "bench", name, 1, f"{SHOP}:v2", spec=spec, hash="", **size)
        labels = {"app.kubernetes.io/name": name}
        if cause == "spread-affinity":
            twin = build_spread_affinity_workload(1)
            labels, work.spec = twin.labels | {"pod-template-hash": "7d9f6c5b84"}, twin.spec
        yield pending(work, labels, make)


def pending(work: Workload, labels: Object, make: Maker) -> Object:
    """Build a bare pod without a node, as `kubectl run` creates it."""
    spec = json.loads(json.dumps(build_pod_spec(work)).replace("@TOKEN@", make.word(5)))
    del spec["nodeName"]
    if work.name == "pending-host-port":
        spec["containers"][0]["ports"][0] |= {"containerPort": 9100, "hostPort": 9100}
    reason = "SchedulingGated" if "schedulingGates" in spec else "Unschedulable"
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "lastTransitionTime": make.time()}
    status = {"phase": "Pending", "conditions": [] if "scheduler-name" in work.name else [condition]}
    meta = make.meta(work.name, work.namespace, labels=labels)
    return obj("v1", "Pod", meta, spec=spec, status=status | {"qosClass": "Burstable"})


# --- the small kinds -----------------------------------------------------------------------------------------------


def small_kinds(
    works: list[Workload], nodes: Nodes, pods: list[Replica], make: Maker
) -> Iterator[tuple[str, list[Object]]]:
    """Yield the objects of all kinds besides nodes and pods."""
    names = sorted({*TEAMS, "bench", "default", "kube-node-lease", "kube-public", "kube-system"})
    labels = [{"kubernetes.io/metadata.name": name, "team": name} for name in names]
    metas = [make.meta(name, labels=label) for name, label in zip(names, labels, strict=True)]
    yield "namespaces", [obj("v1", "Namespace", meta, status={"phase": "Active"}) for meta in metas]
    yield "priorityclasses", [build_priority_class(name, value, make) for name, value in (PRIORITIES | SYSTEM).items()]
    plain = [work for work in works if work.kind != "DaemonSet"]
    yield "services", [build_service(work, make) for work in plain]
    yield "poddisruptionbudgets", [build_budget(work, make) for work in plain[::3] if work.replicas > 1]
    for kind in ("ReplicaSet", "StatefulSet", "DaemonSet"):
        yield f"{kind.lower()}s", [controller(work, kind, make) for work in works if work.kind == kind]
    yield "deployments", [controller(work, "Deployment", make) for work in works if work.kind == "ReplicaSet"]
    yield "replicationcontrollers", []
    claims = [pod for pod in pods if works[pod.work].kind == "StatefulSet" and pod.row >= 0]
    volumes = [volume(claim, ZONES[nodes.zones[claim.row]], make) for claim in claims]
    yield "persistentvolumeclaims", [claim for claim, _ in volumes]
    yield "persistentvolumes", [bound for _, bound in volumes]
    meta = make.meta("gp3", annotations={"storageclass.kubernetes.io/is-default-class": "true"})
    rest = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"}
    yield "storageclasses", [obj("storage.k8s.io/v1", "StorageClass", meta, **rest)]
    spec = {"attachRequired": True, "storageCapacity": False, "volumeLifecycleModes": ["Persistent"]}
    yield "csidrivers", [obj("storage.k8s.io/v1", "CSIDriver", make.meta(DRIVER), spec=spec)]
    yield "csinodes", [build_csi_node(name, make) for name in sorted(nodes.names)]


def obj(version: str, kind: str, meta: Object, **rest: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}


def build_priority_class(name: str, value: int, make: Maker) -> Object:
    default = {"globalDefault": True} if name == "standard" else {}
    rest = {"value": value, "preemptionPolicy": "PreemptLowerPriority", **default}
    return obj("scheduling.k8s.io/v1", "PriorityClass", make.meta(name), **rest)


def build_service(work: Workload, make: Maker) -> Object:
    ports = [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"}]
    spec = {"ports": ports, "selector": work.selector["matchLabels"], "type": "ClusterIP", "sessionAffinity": "None"}
    return obj("v1", "Service", make.meta(work.name, work.namespace), spec=spec, status={"loadBalancer": {}})


def build_budget(work: Workload, make: Maker) -> Object:
    """Build the PodDisruptionBudget of a workload."""
    most = max(1, work.replicas // 10)
    status = {"disruptionsAllowed": most, "currentHealthy": work.replicas, "expectedPods": work.replicas}
    status |= {"desiredHealthy": work.replicas - most, "observedGeneration": 1}
    spec = {"maxUnavailable": most, "selector": work.selector}
    return obj("policy/v1", "PodDisruptionBudget", make.meta(work.name, work.namespace), spec=spec, status=status)


def controller(work: Workload, kind: str, make: Maker) -> Object:
    """Build the controller of a workload, or the Deployment above it."""
    name, labels = (work.name, work.labels) if kind == "Deployment" else (work.owner, work.labels)
    spec = build_pod_spec(work)
    main = {key: value for key, value in spec["containers"][0].items() if key != "volumeMounts"}
    kept = {key: spec[key] for key in ("restartPolicy", "schedulerName", "priorityClassName")}
    template = work.spec | kept | {"containers": [main]}
    meta = make.meta(name, work.namespace, labels=labels)
    if kind == work.kind:
        meta["uid"] = work.uid
    selector = {"matchLabels": dict(work.selector["matchLabels"])}
    if kind == "ReplicaSet":
        selector["matchLabels"]["pod-template-hash"] = work.hash
    described = {"selector": selector, "template": {"metadata": {"labels": labels}, "spec": template}}
    count = {} if kind == "DaemonSet" else {"replicas": work.replicas}
    return obj("apps/v1", kind, meta, spec=count | described, status=count)


def volume(claim: Replica, zone: str, make: Maker) -> tuple[Object, Object]:
    """Build a bound claim and its volume, which is in the pod's zone."""
    claim_meta = make.meta(f"data-{claim.name}", claim.namespace)
    name = f"pvc-{claim_meta['uid']}"
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "volumeMode": "Filesystem"}
    spec = common | {"volumeName": name, "resources": {"requests": {"storage": "100Gi"}}}
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    rest = {"capacity": {"storage": "100Gi"}, "persistentVolumeReclaimPolicy": "Delete"}
    source = {"csi": {"driver": DRIVER, "fsType": "ext4", "volumeHandle": f"vol-{make.digest()[:17]}"}}
    reference = {"kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim_meta["name"]}
    bound = common | rest | source | {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    bound |= {"claimRef": reference | {"apiVersion": "v1", "uid": claim_meta["uid"]}}
    status = {"phase": "Bound", "accessModes": common["accessModes"], "capacity": rest["capacity"]}
    return (
        obj("v1", "PersistentVolumeClaim", claim_meta, spec=spec, status=status),
        obj("v1", "PersistentVolume", make.meta(name), spec=bound, status={"phase": "Bound"}),
    )


def build_csi_node(name: str, make: Maker) -> Object:
    driver = {"name": DRIVER, "nodeID": f"i-{make.digest()[:17]}", "allocatable": {"count": 25}, "topologyKeys": [ZONE]}
    return obj("storage.k8s.io/v1", "CSINode", make.meta(name), spec={"drivers": [driver]})


# --- writing -------------------------------------------------------------------------------------------------------


def dump(value: Object, indent: bool) -> str:
    if not indent:
        return json.dumps(value, separators=(",", ":"))
    return textwrap.indent(json.dumps(value, indent=4, sort_keys=True), " " * 8).lstrip()


def write_list(path: Path, items: Iterable[str], indent: bool) -> None:
    """Write a `v1 List` of rendered items in kubectl's layout."""
    start, between, end = '{"apiVersion":"v1","items":[', ",", '],"kind":"List","metadata":{"resourceVersion":""}}'
    if indent:
        start, between = '{\n    "apiVersion": "v1",\n    "items": [\n        ', ",\n        "
        end = '\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}'
    with path.open("w", encoding="utf-8") as out:
        out.write(start)
        for number, item in enumerate(items):
            out.write((between if number else "") + item)
        out.write(end + "\n")


def render_pods(works: list[Workload], pods: list[Replica], nodes: Nodes, make: Maker, indent: bool) -> Iterator[str]:
    """Yield the JSON of each pod, filled into the template of its workload."""
    templates: dict[int, str] = {}
    for replica in pods:
        template = templates.get(replica.work)
        if template is None:
            text = dump(build_pod(works[replica.work]), indent).replace("%", "%%")
            template = templates[replica.work] = re.sub(r"@([A-Z]+)@", r"%(\1)s", text)
        make.version += 7
        row = replica.row
        yield template % {
            "NAME": replica.name,
            "INDEX": replica.index,
            "UID": make.uid(),
            "VERSION": make.version,
            "TIME": make.time(),
            "TOKEN": make.word(5),
            "CONTAINER": make.digest(),
            "NODE": nodes.names[row],
            "ZONE": ZONES[nodes.zones[row]],
            "HOST": address(row),
            "IP": f"10.{row // 256}.{row % 256}.{replica.index % 250 + 2}",
        }


def write_cluster(outdir: Path, nodes: int = 5000, pods: int = 150_000, seed: int = 0, indent: bool = False) -> None:
    """Write one JSON file per kind into ``outdir``. ``pods`` includes the pending pods.

    Raises ValueError if the nodes cannot hold that many pods, or are too few for one per pool.
    """
    make, rng, rows = Maker(seed), np.random.default_rng(seed), Nodes.of_size(nodes)
    waiting = [(item["metadata"]["name"], dump(item, indent)) for item in pending_pods(make)]
    works = workloads(nodes, pods - len(waiting), make)
    bound = replicas(works, rows, rng, make)
    unplaced = sum(replica.row < 0 for replica in bound)
    if unplaced:
        raise ValueError(f"{nodes} nodes are too few for {pods} pods: {unplaced} found no room")
    outdir.mkdir(parents=True, exist_ok=True)
    catalogue = sorted({work.image for work in works})
    order = sorted(range(nodes), key=rows.names.__getitem__)
    write_list(outdir / "nodes.json", (dump(build_node(rows, row, catalogue, make), indent) for row in order), indent)
    split = sum((replica.namespace, replica.name) < ("bench", "pending") for replica in bound)
    texts = render_pods(works, bound, rows, make, indent)
    before = (next(texts) for _ in range(split))
    write_list(outdir / "pods.json", chain(before, (text for _, text in waiting), texts), indent)
    for kind, items in small_kinds(works, rows, bound, make):
        items.sort(key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]))
        write_list(outdir / f"{kind}.json", (dump(item, indent) for item in items), indent)


def main() -> None:
    """Write a cluster of the size that the command line specifies."""
    parser = argparse.ArgumentParser(description="Write a big made-up cluster as kubectl prints it.")
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--indent", action="store_true", help="four spaces, as kubectl does; compact otherwise")
    write_cluster(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
