"""The devices that ResourceSlices publish, each once, and which of them CEL selectors match.

Upstream: NewAllocator and GatherPools in structured/internal/incubating (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from sys import intern

import msgspec
from msgspec.structs import replace

from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.objects import Device, DeviceTaintRule, ResourceSlice
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.cel.errors import CompileError
from kschedctl.errors import InputError
from kschedctl.scheduler.dynamic_resources.allocated import DeviceId, PoolId
from kschedctl.scheduler.dynamic_resources.allowance import Allowance
from kschedctl.scheduler.dynamic_resources.features import Features
from kschedctl.scheduler.dynamic_resources.pools import (
    Counters,
    IndexedSlice,
    PooledDevice,
    consumption,
    with_taint_rules,
)
from kschedctl.scheduler.dynamic_resources.requests import AllocationError, Expression

_encode = msgspec.msgpack.Encoder(order="sorted").encode


class Devices:
    """What slices and taint rules say under some features, whatever is allocated."""

    def __init__(self, slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule], features: Features) -> None:
        self.features = features
        self._kind_ids: dict[bytes, int] = {}
        self._twins: dict[bytes, tuple[int, int, Counters]] = {}
        self._verdicts: dict[tuple[str, int, bool], bool | str] = {}
        self._allowance = Allowance()
        self._published, self._rules = slices, rules

    @cached_property
    def slices(self) -> list[IndexedSlice]:
        """All slices, those that the features leave out aside. Raises InputError."""
        found = self._published
        if self.features.device_taint_rules:
            found = with_taint_rules(found, self._rules)
        with without_garbage_collection():
            return [IndexedSlice(i, piece, self._devices(piece)) for i, piece in enumerate(found)]

    @cached_property
    def by_pool(self) -> dict[PoolId, list[IndexedSlice]]:
        """All slices of each pool."""
        found: dict[PoolId, list[IndexedSlice]] = {}
        for piece in self.slices:
            found.setdefault(piece.pool, []).append(piece)
        return found

    @cached_property
    def relevant(self) -> list[IndexedSlice]:
        """Without DRAPartitionableDevices, slices that use it are left out."""
        if self.features.partitionable_devices:
            return self.slices
        specs = ((piece, piece.slice.spec) for piece in self.slices)
        return [p for p, spec in specs if spec.per_device_node_selection is None and not spec.shared_counters]

    @cached_property
    def shareable(self) -> frozenset[DeviceId]:
        """The devices that may be allocated several times."""
        devices = (device for piece in self.slices for device in piece.devices)
        return frozenset(
            device.id
            for device in devices
            if self.features.consumable_capacity and device.device.allow_multiple_allocations
        )

    # -- selectors -----------------------------------------------------------------------------------------------

    def selects(self, expression: Expression, device: PooledDevice, shares: bool = True) -> bool:
        """Whether a selector matches; evaluated once for all devices alike. Raises AllocationError.

        Without ``shares`` it is not told that a device allows multiple allocations, which scoring forgets upstream.
        """
        key = (expression.text, device.kind, shares)
        if key not in self._verdicts:
            self._verdicts[key] = self._evaluate(expression.text, device, shares)
        verdict = self._verdicts[key]
        if isinstance(verdict, str):
            raise AllocationError(f"{expression.source}: {verdict}", verdict, expression.text)
        return verdict

    def _evaluate(self, expression: str, device: PooledDevice, shares: bool) -> bool | str:
        """The verdict, or what went wrong."""
        from kschedctl.scheduler.dynamic_resources import cel  # noqa: PLC0415 - the language takes a moment

        lists = self.features.list_attributes
        try:
            selector = cel.compile_selector(expression, lists)
        except CompileError as error:
            return f"CEL compile error: {error}"
        seen = device.device if shares else replace(device.device, allow_multiple_allocations=None)
        try:
            return selector.matches(cel.Input.of(seen, device.slice.spec.driver, lists), self._allowance)
        except cel.EvaluationError as error:
            return f"CEL runtime error: {error}"

    # -- interning -----------------------------------------------------------------------------------------------

    def _devices(self, piece: ResourceSlice) -> tuple[PooledDevice, ...]:
        """Raises InputError for a quantity that cannot be read."""
        try:
            return tuple(self._device(piece, device) for device in piece.spec.devices)
        except QuantityError as error:
            raise InputError(error.what, where=f"ResourceSlice {piece.metadata.name}", hint=error.hint) from None

    def _device(self, piece: ResourceSlice, device: Device) -> PooledDevice:
        spec = piece.spec
        alike = _encode((spec.driver, spec.per_device_node_selection, replace(device, name="")))
        twin = self._twins.get(alike)
        if twin is None:
            twin = self._twins[alike] = len(self._twins), self._kind(spec.driver, device), consumption(device)
        number, kind, consumes = twin
        return PooledDevice(
            device, piece, kind, number, consumes, (intern(spec.driver), spec.pool.name, intern(device.name))
        )

    def _kind(self, driver: str, device: Device) -> int:
        seen = _encode((driver, device.attributes, device.capacity, device.allow_multiple_allocations))
        if seen not in self._kind_ids:
            for capacity in device.capacity.values():
                parse(str(capacity.value))
        return self._kind_ids.setdefault(seen, len(self._kind_ids))
