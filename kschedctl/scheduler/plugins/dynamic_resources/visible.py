"""Which devices each node can see: slices for nodes, put together to pools.

Upstream: GatherPools in structured/internal/incubating (v1.36).
"""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.node_selector import NodeSelectorError, compile_node_selector
from kschedctl.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kschedctl.scheduler.plugins.dynamic_resources.allocated import PoolId
from kschedctl.scheduler.plugins.dynamic_resources.devices import Devices
from kschedctl.scheduler.plugins.dynamic_resources.pools import (
    COUNTER_SCOPE,
    CounterScope,
    IndexedSlice,
    Pool,
    PooledDevice,
    build_pool,
)
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError
from kschedctl.snapshot.node_masks import match_node_selector
from kschedctl.snapshot.nodes import NodeColumns

_encode = msgspec.msgpack.Encoder(order="sorted").encode


class VisibleDevices:
    """The devices as N nodes see them, whatever is allocated. Raises AllocationError where slices cannot be read."""

    def __init__(self, devices: Devices, nodes: NodeColumns) -> None:
        self.devices, self.nodes = devices, nodes
        self._masks: dict[bytes, Bools] = {}
        self._pools: dict[tuple[int, ...], Pool | None] = {}
        self._devices: dict[tuple[Pool, ...], tuple[PooledDevice, ...]] = {}
        self._rows: dict[PoolId, list[int]] = {}
        self._itself: dict[int, NodeSelector] = {}
        self._looks: dict[object, int] = {}
        self._look_of: dict[int, int] = {}

    def pools(self, row: int) -> tuple[Pool, ...]:
        """The pools that a node sees, in the order of the search; also those that are of no use to it."""
        return self._of_row[row]

    def devices_of(self, row: int) -> tuple[PooledDevice, ...]:
        """All devices of its pools, in their order."""
        pools = self.pools(row)
        pooled_devices = self._devices.get(pools)
        if pooled_devices is None:
            pooled_devices = self._devices[pools] = tuple(device for pool in pools for device in pool.devices)
        return pooled_devices

    def rows(self, pool: PoolId) -> list[int]:
        """The rows of the nodes that may see something of a pool."""
        row = self._rows.get(pool)
        if row is None:
            mask = np.zeros(len(self.nodes), np.bool_)
            for piece in self.devices.by_pool.get(pool, ()):
                mask |= self._slice_mask(piece)
            row = self._rows[pool] = np.flatnonzero(mask).tolist()
        return row

    def itself(self, row: int) -> NodeSelector:
        """The selector of the node alone: one for all claims with devices that are its own."""
        selector = self._itself.get(row)
        if selector is None:
            name = SelectorRequirement("metadata.name", "In", (self.nodes.names[row],))
            selector = self._itself[row] = NodeSelector((NodeSelectorTerm(match_fields=(name,)),))
        return selector

    def look(self, row: int) -> int:
        """Equal for nodes that see alike devices."""
        number = self._look_of.get(row)
        if number is None:
            pools = self.pools(row)
            names = [pool.id[1] for pool in pools]
            local = tuple(
                self.on_node(device, row)
                for pool in pools
                for device in pool.devices
                if device.slice.spec.per_device_node_selection
            )
            look = local, tuple(map(names.index, names)), tuple(pool.shape for pool in pools)
            number = self._look_of[row] = self._looks.setdefault(look, len(self._looks))
        return number

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
                self._masks[key] = match_node_selector(self.nodes, compiled)
            except NodeSelectorError as error:
                raise AllocationError(f"gather pool information: failed to parse node selector: {error}") from None
        return self._masks[key]

    def on_node(self, device: PooledDevice, row: int) -> bool:
        """Whether a device of a slice that leaves this to its devices is for the node. Raises AllocationError."""
        if not device.slice.spec.per_device_node_selection:
            return True
        spec = device.device
        return bool(self.node_mask(spec.node_name, spec.all_nodes, spec.node_selector)[row])

    # -- slices --------------------------------------------------------------------------------------------------

    @cached_property
    def _of_row(self) -> list[tuple[Pool, ...]]:
        """The pools that each node sees."""
        patterns, pattern_of = self._shared
        known: dict[tuple[int, ...], tuple[Pool, ...]] = {}
        pools = []
        with without_garbage_collection():
            for name, pattern in zip(self.nodes.names, pattern_of.tolist(), strict=True):
                seen = (*self._on_node.get(name, ()), *patterns[pattern])
                if seen not in known:
                    known[seen] = self._assemble(seen)
                pools.append(known[seen])
        return pools

    def _assemble(self, seen: tuple[int, ...]) -> tuple[Pool, ...]:
        by_pool: dict[PoolId, list[int]] = {}
        for index in seen:
            by_pool.setdefault(self.devices.slices[index].pool, []).append(index)
        pools = [self._pool((*indices, *self._counter_slices.get(id, ()))) for id, indices in by_pool.items()]
        pools += [pool for id, pool in self._troubled.items() if id not in by_pool]
        there = [pool for pool in pools if pool is not None]
        return tuple(sorted(there, key=lambda pool: (pool.has_binding_conditions, pool.id)))

    def _pool(self, indices: tuple[int, ...]) -> Pool | None:
        if indices not in self._pools:
            seen = [self.devices.slices[index] for index in indices]
            everything = self.devices.by_pool[seen[0].pool]
            self._pools[indices] = build_pool(seen, everything, self.devices.features)
        return self._pools[indices]

    def _is_for_all(self, piece: IndexedSlice) -> bool:
        """Whether a slice counts for every node, whatever it says."""
        if COUNTER_SCOPE.at(self.devices.features.release) is not CounterScope.POOL:
            return False
        return bool(piece.slice.spec.shared_counters)

    @cached_property
    def _counter_slices(self) -> dict[PoolId, tuple[int, ...]]:
        """Slices with shared counters count for every node, whatever they are for."""
        by_pool: dict[PoolId, tuple[int, ...]] = {}
        for piece in self.devices.relevant:
            if self._is_for_all(piece):
                by_pool[piece.pool] = (*by_pool.get(piece.pool, ()), piece.index)
        return by_pool

    @cached_property
    def _troubled(self) -> dict[PoolId, Pool]:
        """Pools of which a node sees counters only, where they are incomplete or invalid: that fails "all devices"."""
        pools = {id: self._pool(indices) for id, indices in self._counter_slices.items()}
        return {id: pool for id, pool in pools.items() if pool is not None and not pool.usable}

    @cached_property
    def _on_node(self) -> dict[str, tuple[int, ...]]:
        by_node: dict[str, tuple[int, ...]] = {}
        for piece in self.devices.relevant:
            name = piece.slice.spec.node_name
            if name and not self._is_for_all(piece):
                by_node[name] = (*by_node.get(name, ()), piece.index)
        return by_node

    @cached_property
    def _shared(self) -> tuple[list[tuple[int, ...]], npt.NDArray[np.intp]]:
        """The distinct sets of slices that are not one node's own, and which of them each node sees (N,)."""
        pieces = [p for p in self.devices.relevant if not p.slice.spec.node_name and not self._is_for_all(p)]
        if not pieces:
            return [()], np.zeros(len(self.nodes), np.intp)
        masks = np.array([self._slice_mask(piece) for piece in pieces])
        patterns, of_node = np.unique(masks, axis=1, return_inverse=True)
        indices = np.array([piece.index for piece in pieces])
        return [tuple(indices[column].tolist()) for column in patterns.T], of_node.reshape(-1)

    def _slice_mask(self, piece: IndexedSlice) -> Bools:
        spec = piece.slice.spec
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return self.node_mask(spec.node_name, spec.all_nodes, spec.node_selector)
        mask = np.zeros(len(self.nodes), np.bool_)
        for device in piece.devices if spec.per_device_node_selection else ():
            mask |= self.node_mask(device.device.node_name, device.device.all_nodes, device.device.node_selector)
        return mask
