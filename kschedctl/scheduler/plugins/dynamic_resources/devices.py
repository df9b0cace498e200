"""The devices that ResourceSlices publish, and cached results of CEL selectors for them.

Upstream: NewAllocator and GatherPools in structured/internal/incubating, and resourceslice/tracker/tracker.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property
from sys import intern
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Device, DeviceClass, DeviceSelector, DeviceTaintRule, ResourceSlice
from kschedctl.api.quantity import QuantityError, parse_quantity
from kschedctl.cel.errors import CompileError
from kschedctl.errors import InputError
from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId, PoolId
from kschedctl.scheduler.plugins.dynamic_resources.pools import (
    COUNTER_SCOPE,
    Counters,
    CounterScope,
    IndexedSlice,
    PooledDevice,
    compute_counter_consumption,
)
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, Expression
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import CostAllowance
from kschedctl.scheduler.plugins.helper.device_features import Features

_encode = msgspec.msgpack.Encoder(order="sorted").encode


SELECTS_BY_CLASS_OR_CEL = ByVersion(
    "a DeviceTaintRule can select devices by class and by CEL expression",
    (("", True), ("1.35", False)),
    "DeviceTaintSelector in resource/v1alpha3/types.go",
)
NAMES_DEVICE = ByVersion(
    "the error of a failing CEL selector names the device", (("", False), ("1.37", True)), "#136709"
)


class MissingKeyHint(StrEnum):
    """The hint that follows the error of a CEL selector that reads a missing attribute."""

    NONE = "none"
    OPTIONAL_CHAINING = (
        "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
        "optional fields"
    )


MISSING_KEY_HINT = ByVersion(
    "advice in the error of a CEL selector that reads a missing attribute",
    (("", MissingKeyHint.NONE), ("1.37", MissingKeyHint.OPTIONAL_CHAINING)),
    "#136709",
)


class SelectorFault(NamedTuple):
    """The fault of a CEL selector that does not compile, or that fails for a device."""

    message: str
    fails_for_device: bool


class TaintRules:
    """The DeviceTaintRules, with the DeviceClasses by which they may select devices."""

    def __init__(self, rules: Iterable[DeviceTaintRule], classes: Iterable[DeviceClass], features: Features) -> None:
        self._by_cel = SELECTS_BY_CLASS_OR_CEL.at(features.release)
        self._lists = features.lists_in_cel
        self._selectors_by_class = {class_.metadata.name: class_.spec.selectors for class_ in classes}
        self._rules = [(rule, self._list_expressions(rule)) for rule in rules]
        self._allowance = CostAllowance()
        self._verdicts: dict[tuple[str, bytes], bool] = {}

    def apply_to_slice(self, resource_slice: ResourceSlice) -> ResourceSlice | None:
        """Return a copy of the slice in which the rules' taints are added to the devices that they select.

        Return None if a rule's expression does not compile, because the scheduler then never receives the slice. Raises
        InputError if the expressions cost too much.
        """
        spec = resource_slice.spec
        devices = list(spec.devices)
        try:
            for rule, expressions in self._rules:
                for i in self._iter_selected_indices(rule, expressions, resource_slice):
                    devices[i] = replace(devices[i], taints=(*devices[i].taints, rule.spec.taint))
        except CompileError:
            return None
        return replace(resource_slice, spec=replace(spec, devices=tuple(devices)))

    def _list_expressions(self, rule: DeviceTaintRule) -> list[str] | None:
        """Return the CEL expressions that a device must match to be tainted by the rule.

        Return None if the rule names a DeviceClass that does not exist, because the rule then selects nothing. The list
        is empty if the rule has no selector. It is also empty in versions in which rules do not select by class or by
        CEL.
        """
        selector = rule.spec.device_selector
        if selector is None or not self._by_cel:
            return []
        class_selectors: tuple[DeviceSelector, ...] = ()
        if selector.device_class_name is not None:
            if selector.device_class_name not in self._selectors_by_class:
                return None
            class_selectors = self._selectors_by_class[selector.device_class_name]
        return [
            device_selector.cel.expression
            for device_selector in (*class_selectors, *selector.selectors)
            if device_selector.cel is not None
        ]

    def _iter_selected_indices(
        self, rule: DeviceTaintRule, expressions: list[str] | None, resource_slice: ResourceSlice
    ) -> Iterator[int]:
        """Yield the indices of the slice's devices that the rule taints.

        `expressions` is the result of `_list_expressions`. If it is None, the rule selects nothing. Raises CompileError
        for an expression that does not compile, and InputError if the expressions cost too much.
        """
        selector, spec = rule.spec.device_selector, resource_slice.spec
        if expressions is None:
            return
        device_name = None
        if selector is not None:
            device_name = selector.device
            if selector.driver not in (None, spec.driver) or selector.pool not in (None, spec.pool.name):
                return
        for i, device in enumerate(spec.devices):
            if device_name not in (None, device.name):
                continue
            if all(self._matches_expression(expression, spec.driver, device) for expression in expressions):
                yield i
        if self._allowance.remaining < 0:
            problem = "the device selectors of DeviceTaintRules cost too much for all devices together"
            raise InputError(problem, where=f"DeviceTaintRule {rule.metadata.name}")

    def _matches_expression(self, expression: str, driver: str, device: Device) -> bool:
        """Return whether the expression matches the device, from a cache if possible.

        An expression that fails does not match. Raises CompileError if the expression does not compile. As in upstream,
        the expression does not see whether the device allows multiple allocations.
        """
        from kschedctl.scheduler.plugins.dynamic_resources import cel  # noqa: PLC0415 - the language takes a moment

        key = expression, _encode((driver, device.attributes, device.capacity))
        if key not in self._verdicts:
            selector = cel.compile_selector(expression, self._lists)
            visible_device = replace(device, allow_multiple_allocations=None)
            try:
                matches = selector.matches(
                    cel.DeviceInput.from_device(visible_device, driver, lists=self._lists), self._allowance
                )
            except cel.EvaluationError:
                matches = False
            self._verdicts[key] = matches
        return self._verdicts[key]


class CounterSlices(StrEnum):
    """The treatment of slices with shared counters while DRAPartitionableDevices is off."""

    INCLUDED = "used like other slices"
    IGNORED = "ignored"


COUNTER_SLICES = ByVersion(
    "ResourceSlices with shared counters while the gate DRAPartitionableDevices is off",
    (
        ("", CounterSlices.INCLUDED),
        ("1.33", CounterSlices.IGNORED),
        ("1.34", CounterSlices.INCLUDED),
        ("1.35", CounterSlices.IGNORED),
    ),
)


class DeviceNumbers(NamedTuple):
    """Numbers that identify equal devices, and the counters that a device consumes.

    They are equal for devices that differ at most in their names and allocations.
    """

    twin: int
    """A number that is equal for devices that differ at most in their names and allocations."""
    kind: int
    """A number that is equal for devices that selectors cannot tell apart."""
    consumes: Counters
    """The counters that each of the devices consumes."""


class Devices:
    """The published devices after taint rules, whether or not they are allocated."""

    def __init__(self, slices: Iterable[ResourceSlice], rules: TaintRules, features: Features) -> None:
        self.features = features
        self._kind_ids: dict[bytes, int] = {}
        self._twins: dict[bytes, DeviceNumbers] = {}
        self._verdicts: dict[tuple[str, int, bool], bool | SelectorFault] = {}
        """Results of selectors by expression, kind of device and `shares`, error messages as strings."""
        self._allowance = CostAllowance()
        self._published, self._rules = slices, rules

    @cached_property
    def slices(self) -> list[IndexedSlice]:
        """All ResourceSlices with their devices, after taint rules. Raises InputError if a slice or rule is invalid."""
        slices = self._published
        if self.features.device_taint_rules:
            slices = [
                resource_slice
                for resource_slice in map(self._rules.apply_to_slice, slices)
                if resource_slice is not None
            ]
        with without_garbage_collection():
            return [
                IndexedSlice(i, resource_slice, self._build_pooled_devices(resource_slice))
                for i, resource_slice in enumerate(slices)
            ]

    @cached_property
    def slices_by_pool(self) -> dict[PoolId, list[IndexedSlice]]:
        """All ResourceSlices of each pool, by the pool's driver and name."""
        slices_by_pool: dict[PoolId, list[IndexedSlice]] = {}
        for indexed_slice in self.slices:
            slices_by_pool.setdefault(indexed_slice.pool, []).append(indexed_slice)
        return slices_by_pool

    @cached_property
    def enabled_slices(self) -> list[IndexedSlice]:
        """The slices that the feature gates allow: all of them with the gate DRAPartitionableDevices.

        Without the gate, slices that select nodes for each device are left out. In some versions, slices with shared
        counters are left out as well.
        """
        if self.features.partitionable_devices:
            return self.slices
        slices = [
            indexed_slice for indexed_slice in self.slices if indexed_slice.slice.spec.per_device_node_selection is None
        ]
        ignores_counter_slices = COUNTER_SLICES.at(self.features.release) is CounterSlices.IGNORED
        if ignores_counter_slices:
            slices = [indexed_slice for indexed_slice in slices if not indexed_slice.slice.spec.shared_counters]
        return slices

    @cached_property
    def shareable_devices(self) -> frozenset[DeviceId]:
        """The devices that can be allocated several times. There are none without DRAConsumableCapacity."""
        if not self.features.consumable_capacity:
            return frozenset()
        devices = (device for indexed_slice in self.slices for device in indexed_slice.devices)
        return frozenset(device.id for device in devices if device.device.allow_multiple_allocations)

    # -- selectors -----------------------------------------------------------------------------------------------

    def matches_selector(self, expression: Expression, device: PooledDevice, shares: bool = True) -> bool:
        """Return whether the selector matches the device.

        Devices that selectors cannot tell apart share a cached result. If ``shares`` is False, the selector does not
        see whether the device allows multiple allocations, as in upstream's scoring. Raises AllocationError if the
        selector does not compile or fails for the device.
        """
        key = (expression.text, device.kind, shares)
        if key not in self._verdicts:
            self._verdicts[key] = self._evaluate_selector(expression.text, device, shares=shares)
        verdict = self._verdicts[key]
        if isinstance(verdict, SelectorFault):
            device_name = self._format_device(device) if verdict.fails_for_device else ""
            message = f"{expression.source}{device_name}: {verdict.message}"
            raise AllocationError(message, text=verdict.message, expression=expression.text)
        return verdict

    def _format_device(self, device: PooledDevice) -> str:
        """Return the part of an error message that names the device. It is empty in older versions."""
        return f" on device {device.label}" if NAMES_DEVICE.at(self.features.release) else ""

    def _evaluate_selector(self, expression: str, device: PooledDevice, *, shares: bool) -> bool | SelectorFault:
        """Return whether a selector matches the device, or the fault if it does not compile or fails.

        If ``shares`` is False, the selector does not see whether the device allows multiple allocations.
        """
        from kschedctl.scheduler.plugins.dynamic_resources import cel  # noqa: PLC0415 - the language takes a moment

        lists = self.features.lists_in_cel
        try:
            selector = cel.compile_selector(expression, lists)
        except CompileError as error:
            return SelectorFault(f"CEL compile error: {error}", fails_for_device=False)
        visible_device = device.device if shares else replace(device.device, allow_multiple_allocations=None)
        try:
            return selector.matches(
                cel.DeviceInput.from_device(visible_device, device.slice.spec.driver, lists=lists), self._allowance
            )
        except cel.EvaluationError as error:
            hint = self._format_missing_key_hint(str(error))
            return SelectorFault(f"CEL runtime error: {error}{hint}", fails_for_device=True)

    def _format_missing_key_hint(self, error: str) -> str:
        """Return the hint for an error about a missing attribute, with the ". " that separates it from the error.

        Return "" for other errors, and if the Kubernetes release gives no hint.
        """
        hint = MISSING_KEY_HINT.at(self.features.release)
        if hint is MissingKeyHint.NONE or "no such key:" not in error:
            return ""
        return f". {hint}"

    # -- numbers for equal devices -------------------------------------------------------------------------------

    def _build_pooled_devices(self, resource_slice: ResourceSlice) -> tuple[PooledDevice, ...]:
        """Build the devices of a slice. Raises InputError naming the slice for an invalid quantity."""
        try:
            return tuple(self._build_pooled_device(resource_slice, device) for device in resource_slice.spec.devices)
        except QuantityError as error:
            raise InputError(
                error.what, where=f"ResourceSlice {resource_slice.metadata.name}", hint=error.hint
            ) from None

    def _build_pooled_device(self, resource_slice: ResourceSlice, device: Device) -> PooledDevice:
        """Build a device of the slice, with the counters that it consumes and its two numbers `twin` and `kind`.

        Devices have the same `twin` if they differ at most in their names and allocations. They have the same `kind` if
        selectors cannot tell them apart. Raises QuantityError if a quantity is invalid, or if the validRange.step of a
        capacity is not positive.
        """
        numbers = self._get_device_numbers(resource_slice, device)
        return PooledDevice(
            device,
            resource_slice,
            kind=numbers.kind,
            twin=numbers.twin,
            consumes=numbers.consumes,
            id=(intern(resource_slice.spec.driver), resource_slice.spec.pool.name, intern(device.name)),
        )

    def _get_device_numbers(self, resource_slice: ResourceSlice, device: Device) -> DeviceNumbers:
        """Return the numbers that identify equal devices, and the counters that the device consumes.

        Devices that differ only in their names have the same numbers. Devices that consume counters of their own slice
        are equal only within the slice. Raises QuantityError if a quantity is invalid, or if the validRange.step of a
        capacity is not positive.
        """
        spec = resource_slice.spec
        # The slice matters only to devices that consume its own counters.
        has_counters_per_slice = COUNTER_SCOPE.at(self.features.release) is CounterScope.SLICE
        slice_name = resource_slice.metadata.name if device.consumes_counters and has_counters_per_slice else ""
        equality_key = _encode((spec.driver, spec.per_device_node_selection, slice_name, replace(device, name="")))
        numbers = self._twins.get(equality_key)
        if numbers is None:
            numbers = self._twins[equality_key] = DeviceNumbers(
                twin=len(self._twins),
                kind=self._get_device_kind_id(spec.driver, device),
                consumes=compute_counter_consumption(device, slice_name),
            )
        return numbers

    def _get_device_kind_id(self, driver: str, device: Device) -> int:
        """Return a number that is equal for devices that selectors cannot tell apart.

        The capacities of a new kind of device are checked. Raises QuantityError if one is not a quantity or has a
        validRange.step that is not positive.
        """
        visible_fields = _encode((driver, device.attributes, device.capacity, device.allow_multiple_allocations))
        if visible_fields not in self._kind_ids:
            _check_capacities(device)
            self._kind_ids[visible_fields] = len(self._kind_ids)
        return self._kind_ids[visible_fields]


def _check_capacities(device: Device) -> None:
    """Raise QuantityError if a capacity is not a quantity or has a validRange.step that is not positive."""
    for name, capacity in device.capacity.items():
        parse_quantity(str(capacity.value))  # raises if it is no quantity
        valid_range = capacity.request_policy.valid_range if capacity.request_policy else None
        if valid_range and valid_range.step is not None and parse_quantity(str(valid_range.step)).value() <= 0:
            raise QuantityError(f"device {device.name}, capacity {name}: validRange.step must be greater than zero")
