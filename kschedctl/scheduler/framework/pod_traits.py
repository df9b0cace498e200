"""Properties of pods without which whole kinds of objects cannot matter to the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kschedctl.api.objects import PodSpec, Volume
from kschedctl.api.resource_names import is_dra_extended


class PodTrait(NamedTuple):
    """A property that only some pods have."""

    has_trait: Callable[[PodSpec], bool]
    """Returns whether a pod with this spec has the trait."""
    absence_reason: str
    """States that no pod has the trait."""


def _uses_disks(spec: PodSpec) -> bool:
    """Return whether the pod uses volumes other than emptyDir, hostPath and images."""
    return any(
        volume != Volume(volume.name, image=volume.image, empty_dir=volume.empty_dir, host_path=volume.host_path)
        for volume in spec.volumes
    )


def _uses_devices(spec: PodSpec) -> bool:
    """Return whether the pod has resource claims or requests an extended resource."""
    return bool(spec.resource_claims) or any(map(is_dra_extended, _iter_resource_names(spec)))


def _iter_resource_names(spec: PodSpec) -> Iterator[str]:
    """Yield the names of all resources in the pod's requests, limits and overhead."""
    yield from spec.overhead
    containers = [container.resources for container in (*spec.containers, *spec.init_containers)]
    for resources in (*containers, *([spec.resources] if spec.resources else ())):
        yield from resources.requests
        yield from resources.limits


USES_DISKS = PodTrait(_uses_disks, "no pod has a claim or a disk")
USES_DEVICES = PodTrait(_uses_devices, "no pod claims devices or requests an extended resource")
IS_GROUPED = PodTrait(lambda spec: spec.scheduling_group is not None, "no pod is in a group")
