"""What the devices of nodes are worth as extended resources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import DeviceClass
from kschedctl.scheduler.framework.extended_resources import find_backing_classes
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.own_rows import NodeView, OwnRows


class DeviceBackedResources:
    """The extended resources that device classes back; none without DRAExtendedResource."""

    def __init__(self, view: NodeView, features: Features) -> None:
        self.features = features
        self._fork, self._rows = (view.fork, view.rows) if isinstance(view, OwnRows) else (view, view.nodes.rows)

    @cached_property
    def classes(self) -> Mapping[str, DeviceClass]:
        """By the resource that each backs."""
        return find_backing_classes(self._fork.objects) if self.features.extended_resource else {}

    def backs(self, resource: str) -> bool:
        """Whether a DeviceClass backs the resource."""
        return resource in self.classes

    def selecting_class(self, resource: str) -> str:
        """The DeviceClass that backs the resource, if it has CEL selectors; else empty."""
        class_ = self.classes.get(resource)
        selects = class_ is not None and any(selector.cel is not None for selector in class_.spec.selectors)
        return class_.metadata.name if class_ is not None and selects else ""

    def any_device(self) -> Bools:
        """(N,): the nodes for which some device counts."""
        from kschedctl.scheduler.plugins.dynamic_resources.device_totals import any_device  # noqa: PLC0415 - few profiles ask
        from kschedctl.scheduler.plugins.dynamic_resources.inventory import inventory_of  # noqa: PLC0415

        return any_device(inventory_of(self._fork, self.features))[self._rows]

    def totals(self, resource: str) -> tuple[Counts, Counts]:
        """(N,) each: how many devices that back the resource a node has, and how many of them are allocated."""
        from kschedctl.scheduler.plugins.dynamic_resources.device_totals import device_totals  # noqa: PLC0415 - few profiles ask
        from kschedctl.scheduler.plugins.dynamic_resources.inventory import inventory_of  # noqa: PLC0415

        total, allocated = device_totals(inventory_of(self._fork, self.features), self.classes[resource])
        return total[self._rows], allocated[self._rows]
