"""Extended resources that devices provide on each node, for scoring."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import DeviceClass
from kschedctl.scheduler.framework.extended_resources import find_backing_classes
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import NodeView, OwnRows


class DeviceBackedResources:
    """The extended resources that device classes back. There are none without DRAExtendedResource."""

    def __init__(self, view: NodeView, features: Features) -> None:
        self.features = features
        if isinstance(view, OwnRows):
            self._fork, self._rows = view.fork, view.rows
        else:
            self._fork, self._rows = view, view.nodes.rows

    @cached_property
    def classes(self) -> Mapping[str, DeviceClass]:
        """The device classes by the resource that they back."""
        return find_backing_classes(self._fork.objects) if self.features.extended_resource else {}

    def is_backed(self, resource: str) -> bool:
        """Return whether a DeviceClass backs the resource."""
        return resource in self.classes

    def find_class_with_selectors(self, resource: str) -> str:
        """Return the name of the DeviceClass that backs the resource, if the class has CEL selectors.

        Return an empty string if it has none, or if no class backs the resource.
        """
        device_class = self.classes.get(resource)
        if device_class is None or all(selector.cel is None for selector in device_class.spec.selectors):
            return ""
        return device_class.metadata.name

    def find_nodes_with_devices(self) -> Bools:
        """Return a mask (N,) of the view's nodes on which any device is available, whether allocated or not."""
        from kschedctl.scheduler.plugins.dynamic_resources.inventory import find_device_nodes, get_inventory  # noqa: PLC0415 - for few profiles

        return find_device_nodes(get_inventory(self._fork, self.features))[self._rows]

    def count_devices(self, resource: str) -> tuple[Counts, Counts]:
        """Return, for each of the view's nodes, how many devices back the resource and how many of these are allocated.

        Raises KeyError if no DeviceClass backs the resource.
        """
        from kschedctl.scheduler.plugins.dynamic_resources.inventory import count_class_devices, get_inventory  # noqa: PLC0415 - for few profiles

        total, allocated = count_class_devices(get_inventory(self._fork, self.features), self.classes[resource])
        return total[self._rows], allocated[self._rows]
