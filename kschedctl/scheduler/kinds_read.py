"""Which kinds of objects each plugin looks at: what to read of a cluster, and what cannot be told without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kschedctl.scheduler.feature_gates import FeatureGates

ALWAYS = ("Node", "Pod", "Namespace", "PriorityClass")
"""Read for every answer. Without nodes and pods there is none."""

_CLAIMS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")

NEEDED: Mapping[str, tuple[str, ...]] = {
    "VolumeBinding": (*_CLAIMS, "CSINode", "CSIDriver", "CSIStorageCapacity"),
    "VolumeZone": _CLAIMS,
    "VolumeRestrictions": ("PersistentVolumeClaim",),
    "NodeVolumeLimits": (*_CLAIMS, "CSINode", "CSIDriver", "VolumeAttachment"),
    "DynamicResources": ("ResourceClaim", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
    "GangScheduling": ("PodGroup",),
}
"""Plugin -> the kinds without which it is not replayed."""

USED: Mapping[str, tuple[str, ...]] = {
    "NodePorts": ("Pod",),
    "NodeResourcesFit": ("Pod",),
    "NodeResourcesBalancedAllocation": ("Pod",),
    "InterPodAffinity": ("Pod", "Namespace"),
    "PodTopologySpread": ("Pod", "Service", "ReplicationController", "ReplicaSet", "StatefulSet"),
    "DefaultPreemption": ("Pod", "PodDisruptionBudget", "PriorityClass"),
}
"""Plugin -> the kinds without which a part of what it does is not replayed."""

GATES: Mapping[str, str] = {"DeviceTaintRule": "DRADeviceTaintRules"}
"""Kind -> the feature gate without which the scheduler does not look at it."""


def kinds_of(plugins: Iterable[str], gates: FeatureGates) -> tuple[str, ...]:
    """The kinds that these plugins look at, those first that every answer needs."""
    found = dict.fromkeys(ALWAYS)
    for plugin in plugins:
        found.update(dict.fromkeys((*NEEDED.get(plugin, ()), *USED.get(plugin, ()))))
    return tuple(kind for kind in found if kind not in GATES or gates.enabled(GATES[kind]))


def lacking(plugin: str, unread: Mapping[str, str]) -> Iterator[str]:
    """The kinds without which the plugin is not replayed and that could not be read."""
    return (kind for kind in NEEDED.get(plugin, ()) if kind in unread)


def left_out(plugins: Iterable[str], unread: Mapping[str, str], partly_read: Mapping[str, str]) -> Iterator[str]:
    """For each plugin that looks at what could not be read, or not all of it, a line that says so and why."""
    for plugin in plugins:
        needed, used = NEEDED.get(plugin, ()), USED.get(plugin, ())
        gone = [f"{kind}: {unread[kind]}" for kind in needed if kind in unread]
        less = [f"{k}: {unread.get(k) or partly_read[k]}" for k in (*needed, *used) if k in unread or k in partly_read]
        if gone or less:
            yield f"plugin {plugin} ({gone[0]})" if gone else f"a part of plugin {plugin} ({less[0]})"
