"""Node groups that Cluster API or OpenShift has: limits and capacity by annotations, nodes by their machines.

Upstream: cloudprovider/clusterapi/clusterapi_utils.go, clusterapi_unstructured.go, clusterapi_nodegroup.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.api.machines import Machine, MachinePool, MachineTemplateOwner
from kschedctl.api.objects import ObjectMeta
from kschedctl.api.quantity import parse
from kschedctl.cluster import Cluster

CLUSTER_API, OPENSHIFT = "cluster.x-k8s.io", "machine.openshift.io"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
PAUSED = f"{CLUSTER_API}/paused"
MOST_PODS = "110"
MANAGED = ("node-role.kubernetes.io", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io")
"""The domains of the labels that Cluster API copies to nodes."""
OPTIONS = {
    "scaledownutilizationthreshold": "scaleDownUtilizationThreshold",
    "scaledowngpuutilizationthreshold": "scaleDownGpuUtilizationThreshold",
}
KUBE_PROXY: JsonObject = {
    "metadata": {"name": "kube-proxy", "namespace": "kube-system", "annotations": {"kubernetes.io/config.mirror": "1"}},
    "spec": {"containers": [{"name": "kube-proxy", "resources": {"requests": {"cpu": "100m"}}}]},
}
"""What the provider puts on every template."""
Owner = MachineTemplateOwner | MachinePool


class MachineGroups(NamedTuple):
    """Documents as ``--node-groups`` has them, and what is wrong with others, a line each."""

    groups: tuple[JsonObject, ...] = ()
    faults: tuple[str, ...] = ()


def machine_groups(cluster: Cluster) -> MachineGroups:
    """The MachineDeployments, MachinePools and lone MachineSets that have limits."""
    groups: list[JsonObject] = []
    faults: list[str] = []
    nodes = _nodes_of(cluster)
    for kind, project, owner in _scalable(cluster):
        name = f"{kind}/{owner.metadata.namespace}/{owner.metadata.name}"
        try:
            least, most = (_limit(owner.metadata, project, bound) for bound in ("min", "max"))
            if least > most:
                raise ValueError(f"min size {least} is above max size {most}")
            if most and owner.metadata.annotations.get(PAUSED) is None:
                groups.append(_group(name, owner, (least, most), tuple(nodes.get(name, ()))))
        except ValueError as error:
            faults.append(f"{name}: {error}")
    return MachineGroups(tuple(groups), tuple(faults))


def _scalable(cluster: Cluster) -> Iterator[tuple[str, str, Owner]]:
    """Kind, whose annotations count, and the object."""
    yield from (("MachineDeployment", CLUSTER_API, deployment) for deployment in cluster.machine_deployments)
    for project, sets in ((CLUSTER_API, cluster.machine_sets), (OPENSHIFT, cluster.openshift_machine_sets)):
        yield from (
            ("MachineSet", project, machine_set)
            for machine_set in sets
            if not _owner(machine_set.metadata, "MachineDeployment")
        )
    yield from (("MachinePool", CLUSTER_API, pool) for pool in cluster.machine_pools)


def _owner(meta: ObjectMeta, kind: str) -> str:
    return next((owner.name for owner in meta.owner_references if owner.kind == kind), "")


def _limit(meta: ObjectMeta, project: str, which: str) -> int:
    """0 without the annotation. Raises ValueError."""
    key = f"{project}/cluster-api-autoscaler-node-group-{which}-size"
    value = meta.annotations.get(key, "0")
    if not value.isdecimal():
        raise ValueError(f"annotation {key}: not a size: {value!r}")
    return int(value)


def _group(name: str, owner: Owner, limits: tuple[int, int], nodes: Sequence[str]) -> JsonObject:
    """Raises ValueError."""
    template = _template(owner)
    target = len(nodes) if owner.spec.replicas is None else owner.spec.replicas
    options = {OPTIONS[key]: value for key, value in _options(owner.metadata) if key in OPTIONS}
    group = {"id": name, "min": limits[0], "max": limits[1], "target": target, "nodes": list(nodes)}
    more = {"template": template, "templatePods": [KUBE_PROXY]} if template else {}
    return {**group, **more, **({"options": options} if options else {})}


def _options(meta: ObjectMeta) -> Iterator[tuple[str, float]]:
    """Raises ValueError."""
    prefix = f"{CLUSTER_API}/autoscaling-options-"
    for key, value in meta.annotations.items():
        if key.removeprefix(prefix) in OPTIONS:
            yield key.removeprefix(prefix), float(value)


# -- nodes --------------------------------------------------------------------------------------------------------


def _nodes_of(cluster: Cluster) -> dict[str, list[str]]:
    """The id of a group -> its nodes, by machines, and where none is known by what a node says of its owner."""
    by_owner: dict[str, list[str]] = {}
    of_set: dict[tuple[str, str], str] = {}
    for machine_set in (*cluster.machine_sets, *cluster.openshift_machine_sets):
        deployment = _owner(machine_set.metadata, "MachineDeployment")
        kind, name = ("MachineDeployment", deployment) if deployment else ("MachineSet", machine_set.metadata.name)
        of_set[machine_set.metadata.namespace, machine_set.metadata.name] = (
            f"{kind}/{machine_set.metadata.namespace}/{name}"
        )
    for pool in cluster.machine_pools:
        id = f"MachinePool/{pool.metadata.namespace}/{pool.metadata.name}"
        by_owner[id] = [reference.name for reference in pool.status.node_refs if reference.name]
    placed = {name for names in by_owner.values() for name in names}
    for machine in (*cluster.machines, *cluster.openshift_machines):
        group = _group_of(machine, of_set)
        if group and machine.status.node_ref and machine.status.node_ref.name not in placed:
            by_owner.setdefault(group, []).append(machine.status.node_ref.name)
            placed.add(machine.status.node_ref.name)
    by_name = {name: group for (_, name), group in of_set.items()}
    for node in cluster.nodes:
        group = by_name.get(node.metadata.annotations.get(f"{CLUSTER_API}/owner-name", ""), "")
        if group and node.metadata.name not in placed:
            by_owner.setdefault(group, []).append(node.metadata.name)
    return by_owner


def _group_of(machine: Machine, of_set: Mapping[tuple[str, str], str]) -> str:
    namespace = machine.metadata.namespace
    if pool := _owner(machine.metadata, "MachinePool"):
        return f"MachinePool/{namespace}/{pool}"
    return of_set.get((namespace, _owner(machine.metadata, "MachineSet")), "")


# -- templates ----------------------------------------------------------------------------------------------------


def _template(owner: Owner) -> JsonObject | None:
    """The node that the annotations promise, None where they do not tell cpu and memory. Raises ValueError."""
    capacity = dict(_capacity(owner.metadata.annotations))
    if not {"cpu", "memory"} <= capacity.keys():
        return None
    generic = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    labels = {**generic, **_managed(owner), **dict(_pairs(owner.metadata.annotations.get(f"{CAPACITY}/labels", "")))}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": owner.metadata.name, "labels": labels}
    return {"metadata": meta, "spec": {"taints": list(_taints(owner))}, "status": status}


def _capacity(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Raises ValueError."""
    for resource, keys, unit in (
        ("cpu", (f"{CAPACITY}/cpu", f"{OPENSHIFT}/vCPU"), ""),
        ("memory", (f"{CAPACITY}/memory",), ""),
        ("memory", (f"{OPENSHIFT}/memoryMb",), "Mi"),
        ("ephemeral-storage", (f"{CAPACITY}/ephemeral-disk",), ""),
    ):
        if value := next((annotations[key] for key in keys if annotations.get(key)), ""):
            parse(value + unit)
            yield resource, value + unit
    count = annotations.get(f"{CAPACITY}/gpu-count") or annotations.get(f"{OPENSHIFT}/GPU") or "0"
    type = annotations.get(f"{CAPACITY}/gpu-type") or ("nvidia.com/gpu" if f"{OPENSHIFT}/GPU" in annotations else "")
    if int(count) and type:
        yield type, count
    pods = annotations.get(f"{CAPACITY}/maxPods") or annotations.get(f"{OPENSHIFT}/maxPods") or MOST_PODS
    yield "pods", str(int(pods))


def _managed(owner: Owner) -> dict[str, str]:
    labels = owner.spec.template.spec.metadata.labels
    return {key: value for key, value in labels.items() if key.partition("/")[0].endswith(MANAGED)}


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals:
            yield key, value


def _taints(owner: Owner) -> Iterator[JsonObject]:
    """The taints of its nodes; those of the annotation win over others of the same key and effect."""
    taints: dict[tuple[str, str], JsonObject] = {}
    for taint in owner.spec.template.spec.taints:
        taints[taint.key, taint.effect] = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    for part in owner.metadata.annotations.get(f"{CAPACITY}/taints", "").split(","):
        head, colon, effect = part.partition(":")
        key, _, value = head.partition("=")
        if colon:
            taints[key, effect] = {"key": key, "value": value, "effect": effect}
    yield from taints.values()
