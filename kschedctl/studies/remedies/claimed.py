"""Which nodes are alike for the pod's claims: columns (N,) by which nodes are told apart beside what refuses them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

import numpy as np

from kschedctl.api.arrays import Ints, Row
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory

MOST_LOOKS = 40
"""Nodes of more sorts of devices are told apart by how many they have, and how many of these are allocated."""


def claim_columns(cycle: Cycle) -> Iterator[Ints]:
    """Of claims for volumes which one a node is refused for, and which find a volume; what devices a node has."""
    refused = {name for name, verdict in cycle.filter.verdicts.items() if verdict.refused.any()}
    for name in refused & {"VolumeBinding"}:
        volumes = cycle.pre_filter.results[name].state.volumes
        yield from (volumes.node_conflict, volumes.bind_conflict, volumes.not_enough_space, volumes.missing)
        yield from (binding.chosen >= 0 for binding in volumes.bindings)
    for name in refused & {"DynamicResources"}:
        evaluation = cycle.pre_filter.results[name].state
        rows = [Row(row) for row in range(len(cycle.view.nodes))]
        looks = _codes(evaluation.key(row, refused=False) for row in rows)
        yield (
            looks if looks.max(initial=0) < MOST_LOOKS else _codes(_amounts(evaluation.inventory, row) for row in rows)
        )


def _codes(found: Iterable[Hashable]) -> Ints:
    """(N,): a number for each that is another."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(each, len(known)) for each in found], np.int64)


def _amounts(inventory: Inventory, row: Row) -> tuple[int, int]:
    """How many devices a node has, and how many of them are allocated."""
    devices = [device.id for pool in inventory.pools(row) for device in pool.devices]
    return len(devices), sum(map(inventory.state.holds, devices))
