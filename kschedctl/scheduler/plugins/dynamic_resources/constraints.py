"""The constraints of a claim: attributes whose values must match or differ between its devices.

Upstream: structured/internal/incubating/{allocator_incubating,constraint}.go (v1.36). An attribute is looked up by its
full name, or by the part after the driver's own domain.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import DeviceAttribute, DeviceConstraint
from kschedctl.scheduler.plugins.dynamic_resources.pools import PooledDevice
from kschedctl.scheduler.plugins.dynamic_resources.requests import Request
from kschedctl.scheduler.plugins.helper.device_features import Features

Value = tuple[str, object]
"""Type and value of an attribute; values of different types are different."""


class Constraint(Protocol):
    """A constraint on the devices of a claim. The search adds devices to it and removes them again."""

    def add(self, request: Request, device: PooledDevice) -> bool:
        """Add the device and return True, or return False without a change if the device violates the constraint."""

    def remove(self, request: Request) -> None:
        """Remove the device that was added last for the request."""


class DistinctBetween(StrEnum):
    """The devices whose values of a distinctAttribute count as distinct."""

    DEVICES = "different devices, even with equal values"
    VALUES = "devices with different values of the attribute"


DISTINCT_BETWEEN = ByVersion(
    "devices that satisfy a distinctAttribute constraint",
    (("", DistinctBetween.DEVICES), ("1.35", DistinctBetween.VALUES)),
)

EACH_DISTINCT = ByVersion(
    "distinctAttribute also compares the devices of a single request", (("", False), ("1.37", True)), "#140600"
)


def build_constraint(constraint: DeviceConstraint, features: Features) -> Constraint:
    """Build the search's constraint from a claim's matchAttribute or distinctAttribute constraint.

    Versions differ in distinctAttribute. Its values must differ either between requests or between all devices. In some
    versions, different devices count as distinct even with equal values.
    """
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.requests, constraint.match_attribute)
    by_device = DISTINCT_BETWEEN.at(features.release) is DistinctBetween.DEVICES
    distinct_type = DistinctForEachDevice if EACH_DISTINCT.at(features.release) else DistinctAttribute
    return distinct_type(constraint.requests, constraint.distinct_attribute or "", by_device)


class MatchAttribute:
    """A constraint that all devices have the same value of an attribute."""

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        self.requests, self.attribute = requests, attribute
        self.value: Value | None = None
        """The value of the devices added so far. It means nothing while there are none."""
        self.devices = 0
        """The number of devices added so far."""

    def add(self, request: Request, device: PooledDevice) -> bool:
        """Add the device and return True, or return False if its value is missing or differs from earlier devices.

        Devices of requests to which the constraint does not apply are accepted and not counted. A value of an
        unsupported type (UNKNOWN) is accepted for the first device only.
        """
        if not request.is_named_in(self.requests):
            return True
        value = find_attribute(device, self.attribute)
        if value is None:
            return False
        if self.devices == 0:
            self.value = value
        elif value != self.value or value == UNKNOWN:
            return False
        self.devices += 1
        return True

    def remove(self, request: Request) -> None:
        """Stop counting the request's latest device, if the constraint applies to the request."""
        if request.is_named_in(self.requests):
            self.devices -= 1


class DistinctAttribute:
    """A constraint that devices of different requests differ in an attribute.

    Upstream remembers only the last device of each request, so devices of one request may have equal values. With
    ``by_device``, different devices always count as distinct, as in older versions.
    """

    def __init__(self, requests: tuple[str, ...], attribute: str, by_device: bool = False) -> None:
        self.requests, self.attribute, self.by_device = requests, attribute, by_device
        self.values: dict[object, Value] = {}
        """The remembered values by the key of `_get_value_key`."""
        self.devices = 0
        """The number of devices added so far."""

    def add(self, request: Request, device: PooledDevice) -> bool:
        """Remember the device's value and return True, or return False if it is missing or equals a remembered value.

        Devices of requests to which the constraint does not apply are accepted and not counted. A value of an
        unsupported type (UNKNOWN) is accepted only while no value is remembered.
        """
        if not request.is_named_in(self.requests):
            return True
        value = find_attribute(device, self.attribute)
        if value is None:
            return False
        if self.by_device and value != UNKNOWN:
            # With the device's ID as a part of the value, two devices never have equal values.
            value_type, attribute_value = value
            value = value_type, (attribute_value, device.id)
        is_first_value = not self.values
        is_distinct = value != UNKNOWN and value not in self.values.values()
        if not is_first_value and not is_distinct:
            return False
        self.values[self._get_value_key(request)] = value
        self.devices += 1
        return True

    def remove(self, request: Request) -> None:
        """Forget the value of the request's latest device, if the constraint applies to the request."""
        if request.is_named_in(self.requests):
            self.devices -= 1
            self.values.pop(self._get_value_key(request), None)

    def _get_value_key(self, request: Request) -> object:
        """Return the key under which the value of the request's latest device is remembered: the request's name.

        All alternatives of a request have the same key, which is the name of the request that lists them.
        """
        return request.parent or request.name


class DistinctForEachDevice(DistinctAttribute):
    """A constraint that all devices differ in an attribute. Devices are removed in reverse order."""

    def _get_value_key(self, request: Request) -> object:
        """Return the number of devices added so far, so that each device's value has another key."""
        return self.devices


UNKNOWN: Value = ("", None)
"""The value of an attribute of a type that constraints do not support, such as a list."""


def find_attribute(device: PooledDevice, name: str) -> Value | None:
    """Return the device's value of a fully qualified attribute, or None if it does not have the attribute.

    An attribute in the domain of the device's own driver may be published without the domain.
    """
    attributes = device.device.attributes
    domain, slash, identifier = name.partition("/")
    attribute = attributes.get(name)
    if attribute is None and slash and domain == device.slice.spec.driver:
        attribute = attributes.get(identifier)
    return None if attribute is None else _read_attribute_value(attribute)


def _read_attribute_value(attribute: DeviceAttribute) -> Value:
    """Return the type and value of an attribute, or UNKNOWN if the value is not a string, int, bool or version."""
    for kind in ("string", "int_", "bool_", "version"):
        value = getattr(attribute, kind)
        if value is not None:
            return kind, value
    return UNKNOWN
