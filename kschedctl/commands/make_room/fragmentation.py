"""Resources and devices of which there is enough in total, but too little on every single node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.resource_names import PODS
from kschedctl.commands.make_room.report import FragmentedResource
from kschedctl.commands.make_room.search import PlanSearch
from kschedctl.scheduler.plugins.dynamic_resources.diagnosis import FreeDevices
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources


def find_fragmented(search: PlanSearch) -> Iterator[FragmentedResource]:
    """Yield the fragmented resources and devices on the nodes that the pod may use, before any move."""
    yield from _iter_resources(search)
    yield from _iter_devices(search)


def _iter_resources(search: PlanSearch) -> Iterator[FragmentedResource]:
    """Yield resources of which the nodes with room for a pod have enough together, but none alone.

    A node at its pod limit has nothing to offer. ``explain`` does not count its free resources either.
    """
    view, eligible = search.stage.view, search.eligible
    if eligible is None:
        return
    free = np.maximum(view.allocatable - view.requested, 0)
    free = free[eligible & (free[:, view.resources[PODS]] > 0)]
    if not len(free):
        return
    wanted = view.requests[view.pods.info[search.wanted]]
    for name, column in view.resources.items():
        total, most = int(free[:, column].sum()), int(free[:, column].max())
        if name != PODS and most < wanted[column] <= total:
            yield FragmentedResource(name, int(wanted[column]), total, most, int((free[:, column] > 0).sum()))


class _DeviceSpread(NamedTuple):
    """The free devices for one alternative of a request."""

    wanted: int
    free: int
    """On all nodes together."""
    on_one: int
    """On the node with the most."""
    nodes: int
    """The number of nodes with any."""


def _iter_devices(search: PlanSearch) -> Iterator[FragmentedResource]:
    """Yield requests that no node can satisfy with any alternative although there are enough devices in total."""
    cycle = search.stage.build_simulation().run_cycle(search.wanted)
    evaluation = cycle.pre_filter.find_state(DynamicResources)
    if evaluation is None or search.eligible_except_devices is None:
        return
    found: dict[tuple[str, str], dict[str, list[FreeDevices]]] = {}
    for row in np.flatnonzero(search.eligible_except_devices).tolist():
        for free in evaluation.list_free_devices(row):
            found.setdefault((free.claim, free.request), {}).setdefault(free.alternative, []).append(free)
    for (claim, _), alternatives in found.items():
        spreads = {name: _compute_spread(on_nodes) for name, on_nodes in alternatives.items()}
        if any(spread.on_one >= spread.wanted for spread in spreads.values()):
            continue
        for name, (wanted, together, on_one, nodes) in spreads.items():
            if together >= wanted:
                yield FragmentedResource(f"devices for claim {claim}, request {name}", wanted, together, on_one, nodes)


def _compute_spread(on_nodes: Sequence[FreeDevices]) -> _DeviceSpread:
    counts = [len(free.devices) for free in on_nodes]
    together = len(frozenset().union(*(free.devices for free in on_nodes)))
    return _DeviceSpread(on_nodes[0].wanted, together, max(counts), sum(count > 0 for count in counts))
