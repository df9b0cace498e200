"""The Workloads of pods that start together: plain pods with the same pod-group-name.

Upstream: pkg/controller/jobs/pod/pod_controller.go and pkg/util/pod/pod.go of kubernetes-sigs/kueue.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kschedctl.api.gangs import KUEUE_LABEL
from kschedctl.api.objects import (
    Container,
    ContainerPort,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodTemplateSpec,
)
from kschedctl.api.queueing import QUEUE_LABEL, KueuePodSet, KueueWorkload
from kschedctl.errors import InputError
from kschedctl.kueue.integrations import WorkloadBuilder, build_pod_set

_NUMBER = re.compile(r"[+-]?\d+")
_ROLE_LENGTH = 8


def get_group_name(pod: Pod) -> str:
    """Return the name of the pod's group in Kueue, or "" if the pod belongs to no group.

    The annotation takes precedence over the label.
    """
    return pod.metadata.annotations.pod_group_name or pod.metadata.labels.get(KUEUE_LABEL, "")


def build_group_workload(pods: Sequence[Pod], queue: str, builder: WorkloadBuilder) -> KueueWorkload:
    """Build the Workload that Kueue creates for a pod group in the LocalQueue ``queue``.

    Pods with the same role, which means the same relevant spec, form a pod set. Pods beyond the group's total count are
    left out. With fast admission, all pods are assumed to have the role of the first pod. Raises InputError if Kueue
    would not create a Workload: if pods are still missing, or if the pods disagree on the queue or the group's size.
    """
    first = pods[0].metadata
    name = get_group_name(pods[0])

    # Kueue waits for all pods, unless the first pod requests fast admission
    total = _parse_total_count(first.annotations.pod_group_total_count)
    has_fast_admission = first.annotations.pod_group_fast_admission == "true"
    if len(pods) < total and not has_fast_admission:
        raise InputError(f"group {name} has {len(pods)} of the {total} pods that pod-group-total-count specifies")
    for pod in pods:
        if pod.metadata.labels.get(QUEUE_LABEL) != first.labels.get(QUEUE_LABEL):
            raise InputError(f"the pods of group {name} name different LocalQueues")
        if pod.metadata.annotations.pod_group_total_count != first.annotations.pod_group_total_count:
            raise InputError(f"the pods of group {name} specify different numbers in pod-group-total-count")

    if has_fast_admission:
        pod_sets = [_build_role_pod_set(pods[0], total, builder)]
    else:
        pod_sets = _build_role_pod_sets(pods[:total], builder)
    owners = tuple(OwnerReference("Pod", pod.metadata.name, "v1", pod.metadata.uid) for pod in pods[:total])
    metadata = ObjectMeta(name, first.namespace, owner_references=owners, creation_timestamp=builder.created)
    return KueueWorkload(metadata, builder.build_workload_spec(first, queue, pod_sets))


def _build_role_pod_sets(pods: Sequence[Pod], builder: WorkloadBuilder) -> list[KueuePodSet]:
    """Build a pod set for each role, sorted by role hash.

    Pods with the same role hash have the same role.
    """
    pods_by_role: dict[str, list[Pod]] = {}
    for pod in pods:
        pods_by_role.setdefault(compute_role_hash(pod.spec), []).append(pod)
    pod_sets = []
    for role in sorted(pods_by_role):
        role_pods = pods_by_role[role]
        pod_sets.append(_build_role_pod_set(role_pods[0], len(role_pods), builder))
    return pod_sets


def _build_role_pod_set(pod: Pod, count: int, builder: WorkloadBuilder) -> KueuePodSet:
    """Build the pod set of ``count`` pods with the role of ``pod``, named after the role."""
    pod_set = build_pod_set(PodTemplateSpec(pod.metadata, pod.spec), count, builder.gates)
    return replace(pod_set, name=compute_role_hash(pod.spec))


def _parse_total_count(text: str) -> int:
    """Parse the annotation pod-group-total-count, a positive number of pods. Raises InputError if it is not."""
    if not _NUMBER.fullmatch(text) or int(text) < 1:
        raise InputError(f"annotation pod-group-total-count: {text!r} is not a number of pods")
    return int(text)


def compute_role_hash(spec: PodSpec) -> str:
    """Compute the hash that distinguishes the roles in a pod group. It is also the name of the role's pod set.

    It covers the fields that matter for scheduling, as JSON. Port names are left out, because they are not stored here.

    >>> compute_role_hash(PodSpec((Container(),)))
    'a9f06f3a'
    """
    shape: dict[str, object] = {
        "initContainers": _render_containers(spec.init_containers),
        "containers": _render_containers(spec.containers),
        "nodeSelector": spec.node_selector or None,
        "affinity": spec.affinity,
        "tolerations": spec.tolerations or None,
        "runtimeClassName": spec.runtime_class_name,
        "priority": spec.priority,
        "topologySpreadConstraints": spec.topology_spread_constraints or None,
        "overhead": spec.overhead or None,
        "resourceClaims": spec.resource_claims or None,
    }
    if spec.resources is not None:
        shape["resources"] = spec.resources.requests or None
    # Sorted, as Go encodes the keys of a map
    encoded = msgspec.json.encode({"spec": {field: shape[field] for field in sorted(shape)}})
    return hashlib.sha256(encoded).hexdigest()[:_ROLE_LENGTH]


def _render_containers(containers: Sequence[Container]) -> list[object] | None:
    """Return the ports and requests of each container as JSON values, or None if there are no containers."""
    described: list[object] = [
        {
            "ports": [_render_port(port) for port in container.ports] or None,
            "resources": {"requests": dict(sorted(container.resources.requests.items()))},
        }
        for container in containers
    ]
    return described or None


def _render_port(port: ContainerPort) -> dict[str, object]:
    """Return the set fields of a port as JSON values, in the order in which Kubernetes' API encodes them."""
    fields = {
        "hostPort": port.host_port,
        "containerPort": port.container_port,
        "protocol": port.protocol,
        "hostIP": port.host_ip,
    }
    return {name: value for name, value in fields.items() if value}
