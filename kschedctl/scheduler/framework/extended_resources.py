"""Extended resources that DeviceClasses back, and the device requests that stand for a pod's resource requests.

Upstream: plugins/dynamicresources/extendeddynamicresources.go, pkg/scheduler/framework/plugins/noderesources and
staging/src/k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.api.objects import (
    Container,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ObjectMeta,
    Pod,
    ResourceClaim,
)
from kschedctl.api.pod_requests import is_sidecar
from kschedctl.api.quantity import parse
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX, is_dra_extended
from kschedctl.snapshot.indexes import ClusterObjects

EXACT_COUNT = "ExactCount"
IN_MEMORY_NAME = "<extended-resources>"
"""Name of a pod's claim for extended resources until the claim is written."""


def index_classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Index DeviceClasses by the resource names that they back.

    If several classes name a resource, the newest wins. If several were created at the same time, the first wins.
    """
    device_classes: dict[str, DeviceClass] = {}
    for device_class in classes:
        resource = device_class.spec.extended_resource_name
        rival = device_classes.get(resource) if resource is not None else None
        if rival is not None and _get_creation_time(device_class) <= _get_creation_time(rival):
            continue
        if resource is not None:
            device_classes[resource] = device_class
        device_classes[f"{DEVICE_CLASS_PREFIX}{device_class.metadata.name}"] = device_class
    return device_classes


def find_backing_classes(objects: ClusterObjects) -> Mapping[str, DeviceClass]:
    """Return the DeviceClass that backs each extended resource, by resource name."""
    return objects.index(index_classes_by_resource, index_classes_by_resource, "DeviceClass")


def _get_creation_time(device_class: DeviceClass) -> str:
    """Return the creation timestamp, or an empty string."""
    return device_class.metadata.creation_timestamp or ""


def is_any_backed(requests: Mapping[str, int], classes: Mapping[str, DeviceClass]) -> bool:
    """Return whether any requested resource may come from a DeviceClass."""
    return any(amount and is_dra_extended(name) and name in classes for name, amount in requests.items())


def build_empty_claim(pod: Pod) -> ResourceClaim:
    """Build the claim for a pod's extended resources before its requests are known."""
    return ResourceClaim(ObjectMeta(name=IN_MEMORY_NAME, namespace=pod.metadata.namespace))


def build_device_requests(
    pod: Pod, resources: Iterable[str], classes: Mapping[str, DeviceClass]
) -> tuple[DeviceRequest, ...]:
    """Build device requests for resources that the node has only as devices, sorted by name.

    Each regular container gets devices of its own. Init containers share devices with later containers and with each
    other.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    is_brief = [i < len(pod.spec.init_containers) and not is_sidecar(c) for i, c in enumerate(containers)]
    requests: list[DeviceRequest] = []
    for resource in sorted(resources):
        lasting = [
            0 if brief else _parse_requested_amount(c, resource) for c, brief in zip(containers, is_brief, strict=True)
        ]
        largest: tuple[int, int] | None = None
        for i, container in enumerate(containers):
            missing = _parse_requested_amount(container, resource) - sum(lasting[i:]) if is_brief[i] else 0
            if missing > 0 and (largest is None or missing > largest[1]):
                largest = (i, missing)
        lasting_requests = [(i, amount) for i, amount in enumerate(lasting) if amount]
        for i, count in lasting_requests + ([largest] if largest else []):
            requests.append(_build_request(i, containers[i], resource, classes[resource], count))
    return tuple(sorted(requests, key=lambda request: request.name))


def _parse_requested_amount(container: Container, resource: str) -> int:
    """Return how many units of a resource a container requests, or 0 for fractions."""
    quantity = parse(str(container.resources.requests.get(resource, 0)))
    return quantity.value() if quantity.round_up(0) == quantity else 0


def _build_request(
    index: int, container: Container, resource: str, device_class: DeviceClass, count: int
) -> DeviceRequest:
    """Build the request of one container for one resource."""
    position = sorted(container.resources.requests).index(resource)
    exactly = ExactDeviceRequest(device_class.metadata.name, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(f"container-{index}-request-{position}", exactly)
