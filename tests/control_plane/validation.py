"""The API server's checks of created objects with volumes whose source is missing or incomplete.

Upstream: ValidatePersistentVolumeSpec, validateLocalVolumeSource and their like in pkg/apis/core/validation (v1.36).
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
REQUIRED = {
    "csi": ("driver", "volumeHandle"),
    "hostPath": ("path",),
    "local": ("path",),
    "nfs": ("server", "path"),
}
"""Volume source -> its required fields. Other sources are accepted as they are."""
OTHER_SOURCES = ("awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "gcePersistentDisk", "vsphereVolume")


def explain_rejected_creation(document: Json) -> str:
    """Return why the API server rejects a new object, or "" if it does not."""
    if document["kind"] != "PersistentVolume":
        return ""
    spec = document["spec"]
    sources = [name for name in (*REQUIRED, *OTHER_SOURCES) if name in spec]
    if len(sources) != 1:
        return "spec: Required value: must specify a volume type" if not sources else "may not specify more than 1"
    (source,) = sources
    for field in REQUIRED.get(source, ()):
        if not spec[source].get(field):
            return f"spec.{source}.{field}: Required value"
    if source == "nfs" and not spec["nfs"]["path"].startswith("/"):
        return "spec.nfs.path: Invalid value: must be an absolute path"
    if source == "local" and "nodeAffinity" not in spec:
        return "spec.nodeAffinity: Required value: Local volume requires node affinity"
    return ""


def complete_volume(manifest: Json) -> Json:
    """Return the volume with its empty fields filled in, as by a person who knows where the storage is."""
    spec = dict(manifest["spec"])
    if not set(spec) & {*REQUIRED, *OTHER_SOURCES}:
        return {**manifest, "spec": {**spec, "nfs": {"server": "nfs.example.com", "path": "/exports/a"}}}
    for source, fields in REQUIRED.items():
        if source in spec:
            spec[source] = {**spec[source], **{field: spec[source].get(field) or "/mnt/a" for field in fields}}
    return {**manifest, "spec": spec}
