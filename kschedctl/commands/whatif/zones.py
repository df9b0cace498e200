"""The contents of each zone before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.api.arrays import Bools
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.cluster import Cluster
from kschedctl.commands.whatif.report import DomainBalance
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import ZONE


def compare_zones(before: Cluster, after: Cluster) -> Iterator[DomainBalance]:
    """Yield every zone that has nodes before or after."""
    old_view, new_view = Scheduler(before).view, Scheduler(after).view
    for zone in sorted({*old_view.nodes.label(ZONE).values, *new_view.nodes.label(ZONE).values}):
        old, new = _summarize_zone(old_view, zone), _summarize_zone(new_view, zone)
        requested = {name: (old.requested[name], new.requested[name]) for name in old.requested}
        yield DomainBalance(zone, (old.nodes, new.nodes), (old.pods, new.pods), requested)


class _Zone(NamedTuple):
    nodes: int
    pods: int
    requested: dict[str, float]


def _summarize_zone(view: Fork, zone: str) -> _Zone:
    column = view.nodes.label(ZONE)
    there = column.codes == (column.values.index(zone) if zone in column.values else -2)
    bound = view.node[view.node >= 0]
    return _Zone(
        int(there.sum()), int(there[bound].sum()), {name: _compute_share(view, there, name) for name in (CPU, MEMORY)}
    )


def _compute_share(view: Fork, there: Bools, name: str) -> float:
    """Return the requested share of what the nodes (N,) offer, in percent."""
    column = view.resources[name]
    offered = int(view.allocatable[there, column].sum())
    return round(100 * int(view.requested[there, column].sum()) / offered, 1) if offered else 0.0
