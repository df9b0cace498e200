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
    """Build the create request for one pod of an owner, from the workload's manifest if it is known."""
    pod_fields = msgspec.to_builtins(pod)
    namespace = pod.metadata.namespace
    is_named = owner.kind in NAMED_KINDS
    name_fields = {"name": pod.metadata.name} if is_named else {"generateName": f"{owner.name}-"}
    metadata = {"namespace": namespace, **name_fields}
    if document is None:
        pod_metadata = {**pod_fields["metadata"], "name": "", **metadata}
        return CreateRequest(
            owner, {"kind": "Pod", "metadata": pod_metadata, "spec": pod_fields["spec"]}, namespace, in_full=False
        )
    template: Any = extract_pod(owner.kind, drop_nulls(document))
    labels = pod.metadata.labels
    template_metadata = {"labels": labels, "annotations": (template.get("metadata") or {}).get("annotations")}
    spec = {
        **(template.get("spec") or {}),
        **{name: pod_fields["spec"][name] for name in CONTROLLER_FIELDS if pod_fields["spec"].get(name)},
    }
    spec["volumes"] = _merge_claim_volumes(spec.get("volumes") or [], pod_fields["spec"].get("volumes") or [])
    return CreateRequest(
        owner, {"kind": "Pod", "metadata": {**template_metadata, **metadata}, "spec": spec}, namespace, True
    )


def _merge_claim_volumes(template_volumes: Sequence[JsonObject], pod_volumes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the template's volumes together with the claim volumes that the controller adds."""
    claims = {volume["name"]: volume for volume in pod_volumes if volume.get("persistentVolumeClaim")}
    other_volumes = [volume for volume in template_volumes if volume.get("name") not in claims]
    return [*other_volumes, *claims.values()]


def strip_admitted_fields(pod: Pod) -> Pod:
    """Return the pod without a node and without the fields that admission sets."""
    spec = replace(pod.spec, node_name="", priority=None, preemption_policy=None)
    return replace(pod, spec=replace(spec, overhead={}) if spec.runtime_class_name else spec)


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
    """Group the indexes of bare pods that differ only in name. Each other workload forms its own group."""
    groups: dict[object, list[int]] = {}
    for index, (workload, change) in enumerate(zip(workloads, changes, strict=True)):
        is_bare = isinstance(workload, Pod) and len(change.new) == 1 and not (change.kept or change.removed)
        groups.setdefault(_build_template_key(workload, written) if is_bare else index, []).append(index)
    return groups


def _build_template_key(pod: Any, written: Mapping[Owner, JsonObject]) -> tuple[object, ...]:
    """Build a key that is equal for bare pods that differ only in name."""
    document = written.get(get_identity(pod), {})
    metadata = object_at(document, "metadata")
    parts = document.get("spec") or pod.spec, metadata.get("annotations"), pod.metadata.labels
    return pod.metadata.namespace, msgspec.json.encode(parts)
