"""Which kinds of objects each plugin looks at: what to read of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.objects import PodSpec, Volume
from kschedctl.api.resource_names import is_dra_extended
from kschedctl.scheduler.configuration.feature_gates import FeatureGates

ALWAYS = ("Node", "Pod", "Namespace", "PriorityClass")
"""Read for every answer. Without nodes and pods there is none."""

OF_NEW_PODS = ("RuntimeClass", "ResourceClaimTemplate")
"""Read where pods may be created: what becomes a part of them then."""

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


class Need(NamedTuple):
    """Kinds that an answer can lean on only where some pod has a trait; ``none`` says that no pod has it."""

    kinds: tuple[str, ...]
    trait: Callable[[PodSpec], bool]
    none: str


def needless(specs: Iterable[PodSpec]) -> dict[str, str]:
    """The kinds that no answer about these pods can lean on, in a cluster that has no others, and why that is so.

    All of its pods count, also those that run: one whose place is made free may be placed somewhere else.
    """
    distinct = list(specs)
    return {kind: need.none for need in NEEDS if not any(map(need.trait, distinct)) for kind in need.kinds}


def _uses_disks(spec: PodSpec) -> bool:
    return any(volume != Volume(volume.name, image=volume.image) for volume in spec.volumes)


def _uses_devices(spec: PodSpec) -> bool:
    return bool(spec.resource_claims) or any(map(is_dra_extended, _resource_names(spec)))


def _resource_names(spec: PodSpec) -> Iterator[str]:
    yield from spec.overhead
    containers = [container.resources for container in (*spec.containers, *spec.init_containers)]
    for resources in (*containers, *([spec.resources] if spec.resources else ())):
        yield from resources.requests
        yield from resources.limits


def _is_grouped(spec: PodSpec) -> bool:
    return spec.scheduling_group is not None


NEEDS = (
    Need(
        (*_CLAIMS, "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
        _uses_disks,
        "no pod has a claim or a disk",
    ),
    Need(
        ("ResourceClaim", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
        _uses_devices,
        "no pod claims devices or requests an extended resource",
    ),
    Need(("PodGroup",), _is_grouped, "no pod is in a group"),
)
