"""Extended resources that a DeviceClass backs: which class, and the claim that a pod's requests amount to.

Upstream: plugins/dynamicresources/extendeddynamicresources.go, pkg/scheduler/framework/plugins/noderesources and
staging/src/k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Counts
from kschedctl.api.objects import (
    Container,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ObjectMeta,
    Pod,
    ResourceClaim,
)
from kschedctl.api.quantity import parse
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX, is_dra_extended
from kschedctl.scheduler.dynamic_resources.claims import EXACT_COUNT
from kschedctl.scheduler.dynamic_resources.features import Features
from kschedctl.snapshot.indexes import ClusterObjects
from kschedctl.snapshot.own_rows import NodeView, OwnRows

IN_MEMORY_NAME = "<extended-resources>"
"""The name of a pod's claim for extended resources until it is written."""


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Resource name -> the class that backs it. Of two classes with one resource the newer counts, else the first."""
    found: dict[str, DeviceClass] = {}
    for device_class in classes:
        resource = device_class.spec.extended_resource_name
        rival = found.get(resource) if resource is not None else None
        if rival is not None and _created(device_class) <= _created(rival):
            continue
        if resource is not None:
            found[resource] = device_class
        found[f"{DEVICE_CLASS_PREFIX}{device_class.metadata.name}"] = device_class
    return found


def backing_classes(objects: ClusterObjects) -> Mapping[str, DeviceClass]:
    """The same of a fork's objects."""
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
    is_brief = [i < len(pod.spec.init_containers) and c.restart_policy != "Always" for i, c in enumerate(containers)]
    found: list[DeviceRequest] = []
    for resource in sorted(resources):
        lasting = [0 if brief else _amount(c, resource) for c, brief in zip(containers, is_brief, strict=True)]
        largest: tuple[int, int] | None = None
        for i, container in enumerate(containers):
            more = _amount(container, resource) - sum(lasting[i:]) if is_brief[i] else 0
            if more > 0 and (largest is None or more > largest[1]):
                largest = (i, more)
        wanted = [(i, amount) for i, amount in enumerate(lasting) if amount]
        for i, count in wanted + ([largest] if largest else []):
            found.append(_request(i, containers[i], resource, classes[resource], count))
    return tuple(sorted(found, key=lambda request: request.name))


def _amount(container: Container, resource: str) -> int:
    quantity = parse(str(container.resources.requests.get(resource, 0)))
    return quantity.value() if quantity.round_up(0) == quantity else 0


def _request(index: int, container: Container, resource: str, device_class: DeviceClass, count: int) -> DeviceRequest:
    position = sorted(container.resources.requests).index(resource)
    exactly = ExactDeviceRequest(device_class.metadata.name, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(f"container-{index}-request-{position}", exactly)


class DeviceBackedResources:
    """What the devices of nodes are worth as extended resources; nothing without DRAExtendedResource."""

    def __init__(self, view: NodeView, features: Features) -> None:
        self.features = features
        self._fork, self._rows = (view.fork, view.rows) if isinstance(view, OwnRows) else (view, view.nodes.rows)
        self.classes = backing_classes(view.objects) if features.extended_resource else {}

    def backs(self, resource: str) -> bool:
        """Whether a DeviceClass backs the resource."""
        return resource in self.classes

    def selecting_class(self, resource: str) -> str:
        """The DeviceClass that backs the resource, if it has CEL selectors; else empty."""
        found = self.classes.get(resource)
        selects = found is not None and any(selector.cel is not None for selector in found.spec.selectors)
        return found.metadata.name if found is not None and selects else ""

    def any_device(self) -> npt.NDArray[np.bool_]:
        """(N,): the nodes for which some device counts."""
        from kschedctl.scheduler.dynamic_resources.device_totals import any_device  # noqa: PLC0415 - few profiles ask
        from kschedctl.scheduler.dynamic_resources.inventory import inventory_of  # noqa: PLC0415

        return any_device(inventory_of(self._fork, self.features))[self._rows]

    def totals(self, resource: str) -> tuple[Counts, Counts]:
        """(N,) each: how many devices that back the resource a node has, and how many of them are allocated."""
        from kschedctl.scheduler.dynamic_resources.device_totals import device_totals  # noqa: PLC0415 - few profiles ask
        from kschedctl.scheduler.dynamic_resources.inventory import inventory_of  # noqa: PLC0415

        total, allocated = device_totals(inventory_of(self._fork, self.features), self.classes[resource])
        return total[self._rows], allocated[self._rows]
