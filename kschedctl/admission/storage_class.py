"""The admission plugins DefaultStorageClass and StorageObjectInUseProtection.

Upstream: plugin/pkg/admission/storage (v1.36).
"""

from __future__ import annotations

from kschedctl.admission.request import AdmissionRequest
from kschedctl.admission.resource_quota import BETA_CLASS_ANNOTATION
from kschedctl.api.objects import StorageClass

DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
PROTECTION_FINALIZER = "kubernetes.io/pvc-protection"


def set_default_class(request: AdmissionRequest) -> None:
    """Set the newest default class for a claim that names none; of equally new classes the first by name."""
    if request.kind != "PersistentVolumeClaim" or request.spec.get("storageClassName") is not None:
        return
    if BETA_CLASS_ANNOTATION in request.annotations:
        return
    defaults = [storage_class for storage_class in request.cluster.storage_classes if _is_default(storage_class)]
    if defaults:
        defaults.sort(key=lambda storage_class: storage_class.metadata.name)
        newest = max(defaults, key=lambda storage_class: storage_class.metadata.creation_timestamp or "")
        request.spec["storageClassName"] = newest.metadata.name
        request.changed.append(f"storageClassName {newest.metadata.name} as the default StorageClass")


def _is_default(storage_class: StorageClass) -> bool:
    """Return whether the class is marked as default."""
    return any(storage_class.metadata.annotations.get(key) == "true" for key in DEFAULT_ANNOTATIONS)


def add_protection_finalizer(request: AdmissionRequest) -> None:
    """Add the finalizer that keeps a claim while it is in use."""
    if request.kind == "PersistentVolumeClaim":
        finalizers = request.obj["metadata"].setdefault("finalizers", [])
        if PROTECTION_FINALIZER not in finalizers:
            finalizers.append(PROTECTION_FINALIZER)
