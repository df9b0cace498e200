"""What there is enough of for a pod in all, but too little on every node: resources, and devices for its claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.resource_names import PODS
from kschedctl.commands.make_room.report import FragmentedResource
from kschedctl.commands.make_room.search import PlanSearch
from kschedctl.scheduler.plugins.dynamic_resources.diagnosis import FreeDevices
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources


def fragmented(search: PlanSearch) -> Iterator[FragmentedResource]:
    """On the nodes that the pod may use at all, as they are without any move."""
    yield from _resources(search)
    yield from _devices(search)


def _resources(search: PlanSearch) -> Iterator[FragmentedResource]:
    """Yield the resources of which there is enough on all nodes that have room for one more pod, but on none of them.

    A node at its pod limit has nothing to offer: ``explain`` does not count what is free there either.
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


class _Spread(NamedTuple):
    """The devices free for an alternative of a request on all nodes together, on the node with the most, and on how
    many nodes there are any.
    """

    wanted: int
    free: int
    on_one: int
    nodes: int


def _devices(search: PlanSearch) -> Iterator[FragmentedResource]:
    """Requests no alternative of which any node can fill; those are told for which there is enough in all."""
    cycle = search.stage.simulation().cycle(search.wanted)
    evaluation = cycle.pre_filter.find_state(DynamicResources)
    if evaluation is None or search.but_for_devices is None:
        return
    found: dict[tuple[str, str], dict[str, list[FreeDevices]]] = {}
    for row in np.flatnonzero(search.but_for_devices).tolist():
        for free in evaluation.free(row):
            found.setdefault((free.claim, free.request), {}).setdefault(free.alternative, []).append(free)
    for (claim, _), alternatives in found.items():
        spreads = {name: _spread(on_nodes) for name, on_nodes in alternatives.items()}
        if any(spread.on_one >= spread.wanted for spread in spreads.values()):
            continue
        for name, (wanted, together, on_one, nodes) in spreads.items():
            if together >= wanted:
                yield FragmentedResource(f"devices for claim {claim}, request {name}", wanted, together, on_one, nodes)


def _spread(on_nodes: Sequence[FreeDevices]) -> _Spread:
    counts = [len(free.devices) for free in on_nodes]
    together = len(frozenset().union(*(free.devices for free in on_nodes)))
    return _Spread(on_nodes[0].wanted, together, max(counts), sum(count > 0 for count in counts))
