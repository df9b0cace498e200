"""Which kinds of objects each plugin looks at: what to read of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.scheduler.feature_gates import FeatureGates

ALWAYS = ("Node", "Pod", "Namespace", "PriorityClass")
"""Read for every answer. Without nodes and pods there is none."""

_CLAIMS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")

READ: Mapping[str, tuple[str, ...]] = {
    "VolumeBinding": (*_CLAIMS, "CSINode", "CSIDriver", "CSIStorageCapacity"),
    "VolumeZone": _CLAIMS,
    "VolumeRestrictions": ("PersistentVolumeClaim",),
    "NodeVolumeLimits": (*_CLAIMS, "CSINode", "CSIDriver", "VolumeAttachment"),
    "DynamicResources": ("ResourceClaim", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
    "GangScheduling": ("PodGroup",),
    "PodTopologySpread": ("Service", "ReplicationController", "ReplicaSet", "StatefulSet"),
    "DefaultPreemption": ("PodDisruptionBudget",),
}
"""Plugin -> the kinds that it looks at besides these."""

GATES: Mapping[str, str] = {"DeviceTaintRule": "DRADeviceTaintRules"}
"""Kind -> the feature gate without which the scheduler does not look at it."""


def kinds_of(plugins: Iterable[str], gates: FeatureGates) -> tuple[str, ...]:
    """The kinds that these plugins look at, those first that every answer needs."""
    found = dict.fromkeys(ALWAYS)
    for plugin in plugins:
        found.update(dict.fromkeys(READ.get(plugin, ())))
    return tuple(kind for kind in found if kind not in GATES or gates.enabled(GATES[kind]))
