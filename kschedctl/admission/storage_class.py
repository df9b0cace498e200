"""The default class of claims, and what protects them. Upstream: plugin/pkg/admission/storage (v1.36)."""

from __future__ import annotations

from kschedctl.admission.request import AdmissionRequest
from kschedctl.admission.resource_quota import BETA_CLASS
from kschedctl.api.objects import StorageClass

IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
PROTECTION = "kubernetes.io/pvc-protection"


def fill_in(request: AdmissionRequest) -> None:
    """The newest default class, by name where two are as new, for a claim that names none."""
    if request.kind != "PersistentVolumeClaim" or request.spec.get("storageClassName") is not None:
        return
    if BETA_CLASS in request.annotations:
        return
    defaults = [storage_class for storage_class in request.cluster.storage_classes if _is_default(storage_class)]
    if defaults:
        defaults.sort(key=lambda storage_class: storage_class.metadata.name)
        newest = max(defaults, key=lambda storage_class: storage_class.metadata.creation_timestamp or "")
        request.spec["storageClassName"] = newest.metadata.name
        request.changed.append(f"storageClassName {newest.metadata.name} as the default StorageClass")


def _is_default(storage_class: StorageClass) -> bool:
    return any(storage_class.metadata.annotations.get(key) == "true" for key in IS_DEFAULT)


def protect(request: AdmissionRequest) -> None:
    """A finalizer, so that a claim in use stays."""
    if request.kind == "PersistentVolumeClaim":
        finalizers = request.obj["metadata"].setdefault("finalizers", [])
        if PROTECTION not in finalizers:
            finalizers.append(PROTECTION)
