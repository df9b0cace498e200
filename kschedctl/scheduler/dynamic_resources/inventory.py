"""All devices of a cluster and what is allocated of them, made ready for asking what each node can see.

Upstream: NewAllocator and GatherPools in structured/internal/incubating (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.node_selector import NodeSelectorError, compile_node_selector
from kschedctl.api.objects import Device, DeviceClass, NodeSelector, ResourceClaim, ResourceSlice
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.cel.errors import CompileError
from kschedctl.errors import InputError
from kschedctl.scheduler.dynamic_resources.allocated import AllocatedState, gather
from kschedctl.scheduler.dynamic_resources.allowance import Allowance
from kschedctl.scheduler.dynamic_resources.features import Features
from kschedctl.scheduler.dynamic_resources.pools import (
    IndexedSlice,
    Pool,
    PooledDevice,
    PoolId,
    build_pool,
    consumption,
    with_taint_rules,
)
from kschedctl.scheduler.dynamic_resources.requests import AllocationError, Expression
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.snapshot.own_rows import NodeView

Bools = npt.NDArray[np.bool_]

_encode = msgspec.msgpack.Encoder(order="sorted").encode


class Inventory:
    """The devices of a snapshot under some features. Raises AllocationError where slices cannot be read."""

    def __init__(self, view: NodeView, features: Features, state: AllocatedState | None = None) -> None:
        self.nodes, self.cluster, self.features = view.nodes, view.cluster, features
        self.state = gather(view.cluster.resource_claims, features.consumable_capacity) if state is None else state
        self._kind_ids: dict[bytes, int] = {}
        self._twin_ids: dict[bytes, int] = {}
        self._verdicts: dict[tuple[str, int, bool], bool | str] = {}
        self._allowance = Allowance()
        self._masks: dict[bytes, Bools] = {}
        self._pools: dict[tuple[int, ...], Pool | None] = {}
        self._by_slices: dict[tuple[int, ...], tuple[Pool, ...]] = {}

    @cached_property
    def claims(self) -> Mapping[str, ResourceClaim]:
        """By ``namespace/name``."""
        return {f"{claim.metadata.namespace}/{claim.metadata.name}": claim for claim in self.cluster.resource_claims}

    @cached_property
    def classes(self) -> Mapping[str, DeviceClass]:
        return {found.metadata.name: found for found in self.cluster.device_classes}

    @cached_property
    def slices(self) -> list[IndexedSlice]:
        """All slices, those that the features leave out aside."""
        slices: list[ResourceSlice] = list(self.cluster.resource_slices)
        if self.features.device_taint_rules:
            slices = with_taint_rules(slices, self.cluster.device_taint_rules)
        return [IndexedSlice(i, piece, self._devices(piece)) for i, piece in enumerate(slices)]

    # -- what a node sees ----------------------------------------------------------------------------------------

    def pools(self, row: int) -> tuple[Pool, ...]:
        """The pools that a node sees, in the order of the search; also those that are of no use to it."""
        own = self._on_node.get(self.nodes.names[row], ())
        seen = (*own, *self._shared_patterns[self._pattern_of[row]])
        if seen not in self._by_slices:
            self._by_slices[seen] = self._assemble(seen)
        return self._by_slices[seen]

    def node_mask(self, name: str | None, everywhere: bool | None, selector: NodeSelector | None) -> Bools:
        """(N,): the nodes that a slice or device is for. Raises AllocationError."""
        if name:
            mask = np.zeros(len(self.nodes), np.bool_)
            if name in self.nodes.index:
                mask[self.nodes.index[name]] = True
            return mask
        if everywhere or selector is None:
            return np.full(len(self.nodes), bool(everywhere))
        key = _encode(selector)
        if key not in self._masks:
            compiled = compile_node_selector(selector)
            try:
                self._masks[key] = self.nodes.evaluate(compiled.match, compiled.keys, compiled.names)  # type: ignore[assignment]
            except NodeSelectorError as error:
                raise AllocationError(f"gather pool information: failed to parse node selector: {error}") from None
        return self._masks[key]

    def on_node(self, device: PooledDevice, row: int) -> bool:
        """Whether a device of a slice that leaves this to its devices is for the node. Raises AllocationError."""
        if not device.slice.spec.per_device_node_selection:
            return True
        found = device.device
        return bool(self.node_mask(found.node_name, found.all_nodes, found.node_selector)[row])

    def _assemble(self, seen: tuple[int, ...]) -> tuple[Pool, ...]:
        by_pool: dict[PoolId, list[int]] = {}
        for index in seen:
            by_pool.setdefault(self.slices[index].pool, []).append(index)
        pools = [self._pool((*indices, *self._counter_slices.get(id, ()))) for id, indices in by_pool.items()]
        pools += [pool for id, pool in self._troubled.items() if id not in by_pool]
        found = [pool for pool in pools if pool is not None]
        return tuple(sorted(found, key=lambda pool: (pool.has_binding_conditions, pool.id)))

    def _pool(self, indices: tuple[int, ...]) -> Pool | None:
        if indices not in self._pools:
            seen = [self.slices[index] for index in indices]
            everything = self._by_pool[seen[0].pool]
            self._pools[indices] = build_pool(seen, everything, self.state, self.features.partitionable_devices)
        return self._pools[indices]

    @cached_property
    def _by_pool(self) -> dict[PoolId, list[IndexedSlice]]:
        found: dict[PoolId, list[IndexedSlice]] = {}
        for piece in self.slices:
            found.setdefault(piece.pool, []).append(piece)
        return found

    def _relevant(self) -> list[IndexedSlice]:
        """Without DRAPartitionableDevices, slices that use it are left out."""
        if self.features.partitionable_devices:
            return self.slices
        specs = ((piece, piece.slice.spec) for piece in self.slices)
        return [p for p, spec in specs if spec.per_device_node_selection is None and not spec.shared_counters]

    @cached_property
    def _counter_slices(self) -> dict[PoolId, tuple[int, ...]]:
        """Slices with shared counters count for every node, whatever they are for."""
        found: dict[PoolId, tuple[int, ...]] = {}
        for piece in self._relevant():
            if piece.slice.spec.shared_counters:
                found[piece.pool] = (*found.get(piece.pool, ()), piece.index)
        return found

    @cached_property
    def _troubled(self) -> dict[PoolId, Pool]:
        """Pools of which a node sees counters only, where they are incomplete or invalid: that fails "all devices"."""
        pools = {id: self._pool(indices) for id, indices in self._counter_slices.items()}
        return {id: pool for id, pool in pools.items() if pool is not None and not pool.usable}

    @cached_property
    def _on_node(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for piece in self._relevant():
            name = piece.slice.spec.node_name
            if name and not piece.slice.spec.shared_counters:
                found[name] = (*found.get(name, ()), piece.index)
        return found

    @cached_property
    def _shared(self) -> tuple[list[tuple[int, ...]], npt.NDArray[np.intp]]:
        """The distinct sets of slices that are not one node's own, and which of them each node sees (N,)."""
        pieces = [p for p in self._relevant() if not p.slice.spec.node_name and not p.slice.spec.shared_counters]
        if not pieces:
            return [()], np.zeros(len(self.nodes), np.intp)
        masks = np.array([self._slice_mask(piece) for piece in pieces])
        patterns, of_node = np.unique(masks, axis=1, return_inverse=True)
        indices = np.array([piece.index for piece in pieces])
        return [tuple(indices[column].tolist()) for column in patterns.T], of_node.reshape(-1)

    @property
    def _shared_patterns(self) -> list[tuple[int, ...]]:
        return self._shared[0]

    @property
    def _pattern_of(self) -> npt.NDArray[np.intp]:
        return self._shared[1]

    def _slice_mask(self, piece: IndexedSlice) -> Bools:
        spec = piece.slice.spec
        if spec.all_nodes or spec.node_selector is not None:
            return self.node_mask(None, spec.all_nodes, spec.node_selector)
        mask = np.zeros(len(self.nodes), np.bool_)
        for device in piece.devices if spec.per_device_node_selection else ():
            mask |= self.node_mask(device.device.node_name, device.device.all_nodes, device.device.node_selector)
        return mask

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
        seen = _encode((spec.driver, device.attributes, device.capacity, device.allow_multiple_allocations))
        if seen not in self._kind_ids:
            for capacity in device.capacity.values():
                parse(str(capacity.value))
        kind = self._kind_ids.setdefault(seen, len(self._kind_ids))
        mark = self.state.mark((spec.driver, spec.pool.name, device.name))
        alike = (spec.driver, spec.per_device_node_selection, mark, replace(device, name=""))
        twin = self._twin_ids.setdefault(_encode(alike), len(self._twin_ids))
        return PooledDevice(device, piece, kind, twin, consumption(device))


_INVENTORIES: WeakKeyDictionary[NodeColumns, dict[Features, Inventory]] = WeakKeyDictionary()


def inventory_of(view: NodeView, features: Features) -> Inventory:
    """The snapshot's inventory, made on first use and shared by its forks and by the plugins that look at devices."""
    known = _INVENTORIES.setdefault(view.nodes, {})
    if features not in known or known[features].cluster is not view.cluster:
        known[features] = Inventory(view, features)
    return known[features]
