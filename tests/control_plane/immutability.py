"""The API server's checks of updates that change immutable fields.

Upstream: Validate*Update in pkg/apis/{core,apps,batch,storage,resource,scheduling}/validation (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
SYSTEM = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
OF_STATEFUL_SET = {
    *("replicas", "template", "updateStrategy", "minReadySeconds", "ordinals", "revisionHistoryLimit"),
    "persistentVolumeClaimRetentionPolicy",
}
OF_VOLUME = {
    *("capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions"),
    "volumeAttributesClassName",
}


def find_rejection(old: Json, new: Json, subresource: str = "") -> str:
    """Return why the update is rejected, or ""."""
    for name in SYSTEM:
        if (old["metadata"].get(name) or "") != (new["metadata"].get(name) or ""):
            return f"metadata.{name}: field is immutable"
    if subresource == "resize":
        return _resize(old, new)
    return RULES.get(old["kind"], _accept_any_update)(old, new)


def _accept_any_update(_old: Json, _new: Json) -> str:
    return ""


def _get_spec(document: Json) -> Json:
    return document.get("spec") or {}


def _drop_fields(spec: Json, names: set[str]) -> Json:
    return {name: value for name, value in spec.items() if name not in names and value not in (None, [], {}, "")}


def _build_immutability_check(*names: str) -> Callable[[Json, Json], str]:
    """Return a check that these fields of the object, or of its spec if written with a dot, do not change."""

    def check(old: Json, new: Json) -> str:
        for name in names:
            own = name.rpartition(".")[2]
            before, after = ((_get_spec(each) if "." in name else each).get(own) for each in (old, new))
            if (before or None) != (after or None):
                return f"{name}: Invalid value: field is immutable"
        return ""

    return check


def _check_pod_update(old: Json, new: Json) -> str:
    """Return why the update of a pod is rejected, or "" if it only changes fields that are mutable."""
    before, after = _get_spec(old), _get_spec(new)
    mutable = {"tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "schedulingGates"}
    if _drop_images(_drop_fields(before, mutable)) != _drop_images(_drop_fields(after, mutable)):
        return "spec: Forbidden: pod updates may not change fields other than image, tolerations (only additions)"
    known, now = before.get("tolerations") or [], after.get("tolerations") or []
    if [each for each in known if each not in now]:
        return "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    return ""


def _resize(old: Json, new: Json) -> str:
    """Return why a resize is rejected, or "". Upstream: ValidatePodResize in pkg/apis/core/validation (v1.36)."""
    if old["kind"] != "Pod":
        return "the server could not find the requested resource"
    if _drop_resources(_get_spec(old)) != _drop_resources(_get_spec(new)):
        return "spec: Forbidden: only cpu and memory resources are mutable"
    return ""


def _drop_resources(spec: Json) -> Json:
    """Return a pod's spec without the cpu and memory of its containers."""
    parts = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    fixed = {}
    for name, containers in parts.items():
        fixed[name] = [
            {
                **each,
                "resources": {f: _drop_fields(own, {"cpu", "memory"}) for f, own in each.get("resources", {}).items()},
            }
            for each in containers
        ]
    return {**spec, **fixed}


def _drop_images(spec: Json) -> Json:
    parts = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    less = {name: [{**each, "image": ""} for each in found] for name, found in parts.items()}
    return {**spec, **less}


def _check_claim_update(old: Json, new: Json) -> str:
    """Return why the update of a PersistentVolumeClaim is rejected, or ""."""
    before, after = dict(_get_spec(old)), dict(_get_spec(new))
    if not before.get("volumeName"):
        before["volumeName"] = after.get("volumeName")
    bound = (old.get("status") or {}).get("phase") == "Bound"
    mutable = {"resources", "volumeAttributesClassName"} if bound else set()
    if _drop_fields(before, mutable) != _drop_fields(after, mutable):
        return "spec: Forbidden: spec is immutable after creation except resources.requests for bound claims"
    return ""


def _check_volume_update(old: Json, new: Json) -> str:
    """Return why the update of a PersistentVolume is rejected, or ""."""
    before, after = _get_spec(old), _get_spec(new)
    mutable = OF_VOLUME | ({"nodeAffinity"} if not before.get("nodeAffinity") else set())
    if _drop_fields(before, mutable) != _drop_fields(after, mutable):
        return "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"
    return ""


def _check_stateful_set_update(old: Json, new: Json) -> str:
    if _drop_fields(_get_spec(old), OF_STATEFUL_SET) != _drop_fields(_get_spec(new), OF_STATEFUL_SET):
        return "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' are forbidden"
    return ""


RULES: dict[str, Callable[[Json, Json], str]] = {
    "Pod": _check_pod_update,
    "PersistentVolumeClaim": _check_claim_update,
    "PersistentVolume": _check_volume_update,
    "StatefulSet": _check_stateful_set_update,
    "Deployment": _build_immutability_check("spec.selector"),
    "ReplicaSet": _build_immutability_check("spec.selector"),
    "LocalQueue": _build_immutability_check("spec.clusterQueue"),
    "DaemonSet": _build_immutability_check("spec.selector"),
    "Job": _build_immutability_check("spec.selector", "spec.template", "spec.completionMode"),
    "StorageClass": _build_immutability_check("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    "PriorityClass": _build_immutability_check("value", "preemptionPolicy"),
    "ResourceClaim": _build_immutability_check("spec"),
    "ResourceClaimTemplate": _build_immutability_check("spec"),
}
