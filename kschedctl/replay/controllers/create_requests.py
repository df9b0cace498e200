"""The create requests for pods and claims that controllers send to the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kschedctl.admission.pod_security import extract_pod
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject, drop_nulls, object_at
from kschedctl.api.objects import PersistentVolumeClaim, Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import get_identity
from kschedctl.replay.controllers.workload_change import WorkloadChange

NAMED_KINDS = ("Pod", "StatefulSet")
"""Kinds whose pods get no generated name."""
CONTROLLER_FIELDS = ("affinity", "tolerations", "nodeName")
"""Fields of a pod spec that controllers add to."""


class CreateRequest(NamedTuple):
    """A request to create an object, which may stand for all alike pods of a workload."""

    owner: Owner
    manifest: JsonObject
    namespace: str
    in_full: bool
    """Whether the manifest has all fields, not only those that scheduling reads."""


def build_pod_request(owner: Owner, pod: Pod, document: JsonObject | None) -> CreateRequest:
    """Build the create request for one pod of an owner, from the workload's manifest (`document`) if it is known.

    Without the manifest, the request has only the fields that scheduling reads.
    """
    namespace = pod.metadata.namespace
    if owner.kind in NAMED_KINDS:
        identity = {"namespace": namespace, "name": pod.metadata.name}
    else:
        identity = {"namespace": namespace, "generateName": f"{owner.name}-"}
    pod_fields = msgspec.to_builtins(pod)
    pod_spec = pod_fields["spec"]
    if document is None:
        metadata = {**pod_fields["metadata"], "name": "", **identity}
        return CreateRequest(owner, {"kind": "Pod", "metadata": metadata, "spec": pod_spec}, namespace, in_full=False)

    template: Any = extract_pod(owner.kind, drop_nulls(document))
    annotations = (template.get("metadata") or {}).get("annotations")
    metadata = {"labels": pod.metadata.labels, "annotations": annotations, **identity}
    controller_fields = {name: pod_spec[name] for name in CONTROLLER_FIELDS if pod_spec.get(name)}
    spec = {**(template.get("spec") or {}), **controller_fields}
    spec["volumes"] = _merge_claim_volumes(spec.get("volumes") or [], pod_spec.get("volumes") or [])
    return CreateRequest(owner, {"kind": "Pod", "metadata": metadata, "spec": spec}, namespace, in_full=True)


def _merge_claim_volumes(template_volumes: Sequence[JsonObject], pod_volumes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the template's volumes together with the claim volumes that the controller adds."""
    claims = {volume["name"]: volume for volume in pod_volumes if volume.get("persistentVolumeClaim")}
    other_volumes = [volume for volume in template_volumes if volume.get("name") not in claims]
    return [*other_volumes, *claims.values()]


def strip_admitted_fields(pod: Pod) -> Pod:
    """Return the pod without a node and without the fields that admission sets: priority, policy and overhead."""
    spec = replace(pod.spec, node_name="", priority=None, preemption_policy=None)
    if spec.runtime_class_name:
        spec = replace(spec, overhead={})
    return replace(pod, spec=spec)


def build_claim_request(template: PersistentVolumeClaim, namespace: str, name: str) -> CreateRequest:
    """Build the create request for a claim of a claim template."""
    metadata = {"name": name, "namespace": namespace, "annotations": template.metadata.annotations}
    manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": msgspec.to_builtins(template.spec),
    }
    return CreateRequest(Owner("PersistentVolumeClaim", namespace, name), manifest, namespace, in_full=False)


def group_bare_pods(
    workloads: Sequence[Struct], changes: Sequence[WorkloadChange], written: Mapping[Owner, JsonObject]
) -> dict[object, list[int]]:
    """Group the indexes of new bare pods that differ only in name. Each other workload forms its own group."""
    groups: dict[object, list[int]] = {}
    for index, (workload, change) in enumerate(zip(workloads, changes, strict=True)):
        is_new_bare_pod = isinstance(workload, Pod) and len(change.new) == 1 and not (change.kept or change.removed)
        key = _build_template_key(workload, written) if is_new_bare_pod else index
        groups.setdefault(key, []).append(index)
    return groups


def _build_template_key(pod: Any, written: Mapping[Owner, JsonObject]) -> tuple[object, ...]:
    """Build a key that is equal for bare pods that differ only in name."""
    document = written.get(get_identity(pod), {})
    spec = document.get("spec") or pod.spec
    annotations = object_at(document, "metadata").get("annotations")
    return pod.metadata.namespace, msgspec.json.encode((spec, annotations, pod.metadata.labels))
