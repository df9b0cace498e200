"""Extended resources that a DeviceClass backs: which class, and the claim that a pod's requests amount to.

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
"""The name of a pod's claim for extended resources until it is written."""


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Resource name -> the class that backs it. Of two classes with one resource the newer counts, else the first."""
    device_classes: dict[str, DeviceClass] = {}
    for device_class in classes:
        resource = device_class.spec.extended_resource_name
        rival = device_classes.get(resource) if resource is not None else None
        if rival is not None and _created(device_class) <= _created(rival):
            continue
        if resource is not None:
            device_classes[resource] = device_class
        device_classes[f"{DEVICE_CLASS_PREFIX}{device_class.metadata.name}"] = device_class
    return device_classes


def backing_classes(objects: ClusterObjects) -> Mapping[str, DeviceClass]:
    """Extended resource -> the DeviceClass that backs it, of a fork's objects."""
    return objects.index(classes_by_resource, classes_by_resource, "DeviceClass")


def _created(device_class: DeviceClass) -> str:
    return device_class.metadata.creation_timestamp or ""


def backed(requests: Mapping[str, int], classes: Mapping[str, DeviceClass]) -> bool:
    """Whether any of the requested resources may come from a DeviceClass."""
    return any(amount and is_dra_extended(name) and name in classes for name, amount in requests.items())


def empty_claim(pod: Pod) -> ResourceClaim:
    """The claim for a pod's extended resources before it is known which of them a node gives otherwise."""
    return ResourceClaim(ObjectMeta(name=IN_MEMORY_NAME, namespace=pod.metadata.namespace))


def device_requests(
    pod: Pod, resources: Iterable[str], classes: Mapping[str, DeviceClass]
) -> tuple[DeviceRequest, ...]:
    """The requests of that claim for the resources that a node has from devices alone, by name.

    A container of its own asks for its own devices; init containers use those of later containers, and each other's.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    is_brief = [i < len(pod.spec.init_containers) and not is_sidecar(c) for i, c in enumerate(containers)]
    requests: list[DeviceRequest] = []
    for resource in sorted(resources):
        lasting = [0 if brief else _amount(c, resource) for c, brief in zip(containers, is_brief, strict=True)]
        largest: tuple[int, int] | None = None
        for i, container in enumerate(containers):
            more = _amount(container, resource) - sum(lasting[i:]) if is_brief[i] else 0
            if more > 0 and (largest is None or more > largest[1]):
                largest = (i, more)
        wanted = [(i, amount) for i, amount in enumerate(lasting) if amount]
        for i, count in wanted + ([largest] if largest else []):
            requests.append(_request(i, containers[i], resource, classes[resource], count))
    return tuple(sorted(requests, key=lambda request: request.name))


def _amount(container: Container, resource: str) -> int:
    quantity = parse(str(container.resources.requests.get(resource, 0)))
    return quantity.value() if quantity.round_up(0) == quantity else 0


def _request(index: int, container: Container, resource: str, device_class: DeviceClass, count: int) -> DeviceRequest:
    position = sorted(container.resources.requests).index(resource)
    exactly = ExactDeviceRequest(device_class.metadata.name, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(f"container-{index}-request-{position}", exactly)
