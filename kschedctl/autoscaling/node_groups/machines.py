"""Node groups of Cluster API and OpenShift: limits and capacity from annotations, nodes from machines.

Upstream: cloudprovider/clusterapi/clusterapi_utils.go, clusterapi_unstructured.go, clusterapi_nodegroup.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.api.machines import Machine, MachinePool, MachineTemplateOwner
from kschedctl.api.objects import ObjectMeta
from kschedctl.api.quantity import parse_quantity
from kschedctl.cluster import Cluster

CLUSTER_API, OPENSHIFT = "cluster.x-k8s.io", "machine.openshift.io"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
PAUSED = f"{CLUSTER_API}/paused"
DEFAULT_MAX_PODS = "110"
COPIED_DOMAINS = ("node-role.kubernetes.io", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io")
"""Domains of the labels that Cluster API copies to nodes."""
OPTIONS = {
    "scaledownutilizationthreshold": "scaleDownUtilizationThreshold",
    "scaledowngpuutilizationthreshold": "scaleDownGpuUtilizationThreshold",
}
KUBE_PROXY: JsonObject = {
    "metadata": {"name": "kube-proxy", "namespace": "kube-system", "annotations": {"kubernetes.io/config.mirror": "1"}},
    "spec": {"containers": [{"name": "kube-proxy", "resources": {"requests": {"cpu": "100m"}}}]},
}
"""The pod that the provider puts on every template."""
Owner = MachineTemplateOwner | MachinePool


class MachineGroups(NamedTuple):
    """Node groups that are built from the objects of Cluster API or OpenShift."""

    groups: tuple[JsonObject, ...] = ()
    """Groups as in a ``--node-groups`` file."""
    faults: tuple[str, ...] = ()
    """Descriptions of objects that are left out because they are invalid."""


def build_machine_groups(cluster: Cluster) -> MachineGroups:
    """Build node groups from MachineDeployments, MachinePools and unowned MachineSets with a maximum size.

    Paused objects are left out, and invalid objects are described as faults.
    """
    groups: list[JsonObject] = []
    faults: list[str] = []
    nodes = _map_nodes_by_group(cluster)
    for kind, api_group, owner in _iter_scalable_objects(cluster):
        name = f"{kind}/{owner.metadata.namespace}/{owner.metadata.name}"
        try:
            minimum = _parse_size_annotation(owner.metadata, api_group, "min")
            maximum = _parse_size_annotation(owner.metadata, api_group, "max")
            if minimum > maximum:
                raise ValueError(f"min size {minimum} is above max size {maximum}")
            if maximum and owner.metadata.annotations.get(PAUSED) is None:
                groups.append(_build_machine_group(name, owner, (minimum, maximum), nodes.get(name, ())))
        except ValueError as error:
            faults.append(f"{name}: {error}")
    return MachineGroups(tuple(groups), tuple(faults))


def _iter_scalable_objects(cluster: Cluster) -> Iterator[tuple[str, str, Owner]]:
    """Yield each possible node group as its kind, the API group of its annotations, and the object.

    The MachineSets of a MachineDeployment are left out, since the MachineDeployment itself is the node group.
    """
    yield from (("MachineDeployment", CLUSTER_API, deployment) for deployment in cluster.machine_deployments)
    for api_group, machine_sets in ((CLUSTER_API, cluster.machine_sets), (OPENSHIFT, cluster.openshift_machine_sets)):
        yield from (
            ("MachineSet", api_group, machine_set)
            for machine_set in machine_sets
            if not _get_owner_name(machine_set.metadata, "MachineDeployment")
        )
    yield from (("MachinePool", CLUSTER_API, pool) for pool in cluster.machine_pools)


def _get_owner_name(meta: ObjectMeta, kind: str) -> str:
    """Return the name of the object's first owner of this kind, or "" if there is none."""
    return next((owner.name for owner in meta.owner_references if owner.kind == kind), "")


def _parse_size_annotation(meta: ObjectMeta, api_group: str, bound: str) -> int:
    """Return the size in an object's annotation, or 0 without an annotation. ``bound`` is min or max.

    Raises ValueError if the annotation is not a valid size.
    """
    key = f"{api_group}/cluster-api-autoscaler-node-group-{bound}-size"
    value = meta.annotations.get(key, "0")
    if not value.isdecimal():
        raise ValueError(f"annotation {key}: not a size: {value!r}")
    return int(value)


def _build_machine_group(name: str, owner: Owner, limits: tuple[int, int], nodes: Sequence[str]) -> JsonObject:
    """Build the node group for a MachineSet or MachineDeployment, with its nodes and annotated options.

    A template is included if the size of the nodes is known. ``limits`` are the minimum and the maximum number of
    nodes. Raises ValueError if an annotation is malformed.
    """
    template = _build_template_node(owner)
    target = len(nodes) if owner.spec.replicas is None else owner.spec.replicas
    minimum, maximum = limits
    group: dict[str, object] = {"id": name, "min": minimum, "max": maximum, "target": target, "nodes": list(nodes)}
    if template:
        group |= {"template": template, "templatePods": [KUBE_PROXY]}
    options = {OPTIONS[key]: value for key, value in _iter_annotated_options(owner.metadata)}
    if options:
        group["options"] = options
    return group


def _iter_annotated_options(meta: ObjectMeta) -> Iterator[tuple[str, float]]:
    """Yield the names and values of the autoscaling options in the annotations.

    Raises ValueError if an annotation is malformed.
    """
    prefix = f"{CLUSTER_API}/autoscaling-options-"
    for key, value in meta.annotations.items():
        if not key.startswith(prefix):
            continue
        option = key.removeprefix(prefix)
        if option in OPTIONS:
            yield option, float(value)


# -- nodes --------------------------------------------------------------------------------------------------------


def _map_nodes_by_group(cluster: Cluster) -> dict[str, list[str]]:
    """Return the names of the nodes in each group.

    A node belongs to the group of the MachinePool or Machine that refers to it. If none does, it belongs to the group
    of the MachineSet in its annotation.
    """
    by_group: dict[str, list[str]] = {}
    group_of_set = _map_groups_by_machine_set(cluster)
    assigned: set[str] = set()

    def assign_once(node_name: str, group: str) -> None:
        """Add the node to a group, unless there is no group or the node already has one."""
        if group and node_name not in assigned:
            by_group.setdefault(group, []).append(node_name)
            assigned.add(node_name)

    # nodes that MachinePools and Machines refer to
    for pool in cluster.machine_pools:
        group_id = f"MachinePool/{pool.metadata.namespace}/{pool.metadata.name}"
        by_group[group_id] = [reference.name for reference in pool.status.node_refs if reference.name]
        assigned.update(by_group[group_id])
    for machine in (*cluster.machines, *cluster.openshift_machines):
        if machine.status.node_ref:
            assign_once(machine.status.node_ref.name, _find_machine_group(machine, group_of_set))

    # nodes with an annotation that names their MachineSet
    group_by_set_name = {name: group for (_namespace, name), group in group_of_set.items()}
    for node in cluster.nodes:
        owner_name = node.metadata.annotations.get(f"{CLUSTER_API}/owner-name", "")
        assign_once(node.metadata.name, group_by_set_name.get(owner_name, ""))
    return by_group


def _map_groups_by_machine_set(cluster: Cluster) -> dict[tuple[str, str], str]:
    """Return the id of each MachineSet's group, by namespace and name.

    The group is the MachineDeployment that owns the MachineSet, or else the MachineSet itself.
    """
    group_of_set: dict[tuple[str, str], str] = {}
    for machine_set in (*cluster.machine_sets, *cluster.openshift_machine_sets):
        namespace, name = machine_set.metadata.namespace, machine_set.metadata.name
        deployment = _get_owner_name(machine_set.metadata, "MachineDeployment")
        if deployment:
            group_of_set[namespace, name] = f"MachineDeployment/{namespace}/{deployment}"
        else:
            group_of_set[namespace, name] = f"MachineSet/{namespace}/{name}"
    return group_of_set


def _find_machine_group(machine: Machine, group_of_set: Mapping[tuple[str, str], str]) -> str:
    """Return the id of the group that a machine belongs to, or "" if it is unknown.

    ``group_of_set`` maps the namespace and name of a MachineSet to its group.
    """
    namespace = machine.metadata.namespace
    if pool := _get_owner_name(machine.metadata, "MachinePool"):
        return f"MachinePool/{namespace}/{pool}"
    return group_of_set.get((namespace, _get_owner_name(machine.metadata, "MachineSet")), "")


# -- templates ----------------------------------------------------------------------------------------------------


def _build_template_node(owner: Owner) -> JsonObject | None:
    """Build an object's template node from its annotations and its machine template.

    Return None if the annotations do not state CPU and memory. Raises ValueError if an annotation is malformed.
    """
    capacity = dict(_iter_annotated_capacity(owner.metadata.annotations))
    if not {"cpu", "memory"} <= capacity.keys():
        return None
    default_labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    annotated_labels = dict(_iter_key_value_pairs(owner.metadata.annotations.get(f"{CAPACITY}/labels", "")))
    labels = {**default_labels, **_get_copied_labels(owner), **annotated_labels}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": owner.metadata.name, "labels": labels}
    return {"metadata": meta, "spec": {"taints": list(_iter_new_node_taints(owner))}, "status": status}


def _iter_annotated_capacity(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each resource that the annotations state, with its amount.

    For each resource, an annotation of Cluster API takes precedence over OpenShift's. The maximum number of pods is
    always yielded. Without an annotation, it is DEFAULT_MAX_PODS. Raises ValueError if an annotation is malformed.
    """
    # OpenShift's cluster-autoscaler-operator sets an annotation of Cluster API from its own only if it is missing
    # (checkScaleFromZeroAnnotations). Hence the precedence.

    def find_value(*keys: str) -> str:
        """Return the value of the first of these annotations that is not empty, or "" if there is none."""
        return next((annotations[key] for key in keys if annotations.get(key)), "")

    openshift_mebibytes = annotations.get(f"{OPENSHIFT}/memoryMb", "")
    openshift_memory = f"{openshift_mebibytes}Mi" if openshift_mebibytes else ""
    quantities = {
        "cpu": find_value(f"{CAPACITY}/cpu", f"{OPENSHIFT}/vCPU"),
        "memory": find_value(f"{CAPACITY}/memory") or openshift_memory,
        "ephemeral-storage": find_value(f"{CAPACITY}/ephemeral-disk"),
    }
    for resource, quantity in quantities.items():
        if quantity:
            parse_quantity(quantity)  # raises ValueError if it is malformed
            yield resource, quantity

    gpu_count = find_value(f"{CAPACITY}/gpu-count", f"{OPENSHIFT}/GPU") or "0"
    # OpenShift's annotation counts NVIDIA GPUs, unless another annotation gives the type
    openshift_gpu_type = "nvidia.com/gpu" if f"{OPENSHIFT}/GPU" in annotations else ""
    gpu_type = find_value(f"{CAPACITY}/gpu-type") or openshift_gpu_type
    if int(gpu_count) and gpu_type:
        yield gpu_type, gpu_count

    max_pods = find_value(f"{CAPACITY}/maxPods", f"{OPENSHIFT}/maxPods") or DEFAULT_MAX_PODS
    yield "pods", str(int(max_pods))


def _get_copied_labels(owner: Owner) -> dict[str, str]:
    """Return the labels of the object's machine template that Cluster API copies to nodes."""
    labels = owner.spec.template.spec.metadata.labels
    return {key: value for key, value in labels.items() if key.partition("/")[0].endswith(COPIED_DOMAINS)}


def _iter_key_value_pairs(text: str) -> Iterable[tuple[str, str]]:
    """Yield the keys and values of a text such as ``a=b,c=d``. Items without an equals sign are ignored."""
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals:
            yield key, value


def _iter_new_node_taints(owner: Owner) -> Iterator[JsonObject]:
    """Yield the taints of new nodes, from the object's machine template and its annotation.

    The annotation has the form ``key=value:effect,…`` and takes precedence for the same key and effect. Its parts
    without a colon are skipped.
    """
    taints: dict[tuple[str, str], JsonObject] = {}
    for taint in owner.spec.template.spec.taints:
        taints[taint.key, taint.effect] = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    for part in owner.metadata.annotations.get(f"{CAPACITY}/taints", "").split(","):
        key_and_value, colon, effect = part.partition(":")
        key, _, value = key_and_value.partition("=")
        if colon:
            taints[key, effect] = {"key": key, "value": value, "effect": effect}
    yield from taints.values()
