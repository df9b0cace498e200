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
from kschedctl.api.quantity import parse_quantity
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX, is_dra_extended
from kschedctl.snapshot.indexes import ClusterObjects

EXACT_COUNT = "ExactCount"
IN_MEMORY_NAME = "<extended-resources>"
"""Name of a pod's claim for extended resources until the claim is written."""


def index_classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Index DeviceClasses by the resource names that they back.

    These are the names in the classes' specs, and an implicit name for each class. If several classes name a resource,
    the newest wins. If several were created at the same time, the first wins. A class that loses to an earlier class in
    `classes` gets no implicit name either. A class that is replaced by a later class keeps its implicit name.
    """
    classes_by_resource: dict[str, DeviceClass] = {}
    for device_class in classes:
        resource = device_class.spec.extended_resource_name
        if resource is not None:
            rival = classes_by_resource.get(resource)
            if rival is not None and _get_creation_time(device_class) <= _get_creation_time(rival):
                continue
            classes_by_resource[resource] = device_class
        classes_by_resource[f"{DEVICE_CLASS_PREFIX}{device_class.metadata.name}"] = device_class
    return classes_by_resource


def find_backing_classes(objects: ClusterObjects) -> Mapping[str, DeviceClass]:
    """Return the DeviceClass that backs each extended resource, by resource name."""
    return objects.index(index_classes_by_resource, index_classes_by_resource, "DeviceClass")


def _get_creation_time(device_class: DeviceClass) -> str:
    """Return the creation timestamp, or an empty string."""
    return device_class.metadata.creation_timestamp or ""


def is_any_backed(requests: Mapping[str, int], classes: Mapping[str, DeviceClass]) -> bool:
    """Return whether a DeviceClass may back at least one of the requested resources."""
    return any(amount and is_dra_extended(name) and name in classes for name, amount in requests.items())


def build_empty_claim(pod: Pod) -> ResourceClaim:
    """Build the claim for a pod's extended resources before its requests are known."""
    return ResourceClaim(ObjectMeta(name=IN_MEMORY_NAME, namespace=pod.metadata.namespace))


def build_device_requests(
    pod: Pod, resources: Iterable[str], classes: Mapping[str, DeviceClass]
) -> tuple[DeviceRequest, ...]:
    """Build the device requests that replace the pod's requests for these extended resources, sorted by name.

    Each regular container and sidecar gets devices of its own. Init containers that end before the next container
    starts share devices with later containers and with each other.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    requests: list[DeviceRequest] = []
    for resource in resources:
        for i, count in _count_devices_by_container(pod, resource).items():
            requests.append(_build_request(i, containers[i], resource, classes[resource], count))
    return tuple(sorted(requests, key=lambda request: request.name))


def _count_devices_by_container(pod: Pod, resource: str) -> dict[int, int]:
    """Return the number of devices to request for each container, by its index among all containers.

    Containers that need no additional devices are left out. A short-lived init container reuses the devices of later
    containers. Therefore, only the init container that lacks the most devices gets any: as many as it lacks.
    """
    num_init = len(pod.spec.init_containers)
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    amounts = [_parse_requested_amount(container, resource) for container in containers]
    is_short_lived = [i < num_init and not is_sidecar(container) for i, container in enumerate(containers)]
    counts = {i: amount for i, amount in enumerate(amounts) if amount and not is_short_lived[i]}

    # The devices of later containers are not in use yet when a short-lived init container runs.
    missing_by_index: dict[int, int] = {}
    for i, amount in enumerate(amounts):
        if is_short_lived[i]:
            reusable = sum(count for later, count in counts.items() if later > i)
            missing_by_index[i] = amount - reusable
    neediest = max(missing_by_index, key=missing_by_index.__getitem__, default=None)
    if neediest is not None and missing_by_index[neediest] > 0:
        counts[neediest] = missing_by_index[neediest]
    return counts


def _parse_requested_amount(container: Container, resource: str) -> int:
    """Return how many whole units of a resource a container requests, or 0 if the amount is a fraction."""
    quantity = parse_quantity(str(container.resources.requests.get(resource, 0)))
    return quantity.value() if quantity.round_up(0) == quantity else 0


def _build_request(
    index: int, container: Container, resource: str, device_class: DeviceClass, count: int
) -> DeviceRequest:
    """Build the request of one container for one resource, named after their positions as in upstream."""
    position = sorted(container.resources.requests).index(resource)
    exactly = ExactDeviceRequest(device_class.metadata.name, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(f"container-{index}-request-{position}", exactly)
