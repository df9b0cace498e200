"""In which version of the API objects are created."""

from __future__ import annotations

_STORAGE, _DEVICES = "storage.k8s.io/v1", "resource.k8s.io/v1"
CREATED_IN = {
    "Node": "v1",
    "Pod": "v1",
    "Namespace": "v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "StorageClass": _STORAGE,
    "CSINode": _STORAGE,
    "CSIStorageCapacity": _STORAGE,
    "PriorityClass": "scheduling.k8s.io/v1",
    "ResourceClaim": _DEVICES,
    "ResourceClaimTemplate": _DEVICES,
    "DeviceClass": _DEVICES,
    "ResourceSlice": _DEVICES,
}
