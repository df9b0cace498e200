"""What is in each zone, before and after."""

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


def zone_balance(before: Cluster, after: Cluster) -> Iterator[DomainBalance]:
    """Every zone that nodes are in, before or after."""
    then, now = Scheduler(before).view, Scheduler(after).view
    for zone in sorted({*then.nodes.label(ZONE).values, *now.nodes.label(ZONE).values}):
        old, new = _zone(then, zone), _zone(now, zone)
        requested = {name: (old.requested[name], new.requested[name]) for name in old.requested}
        yield DomainBalance(zone, (old.nodes, new.nodes), (old.pods, new.pods), requested)


class _Zone(NamedTuple):
    nodes: int
    pods: int
    requested: dict[str, float]


def _zone(view: Fork, zone: str) -> _Zone:
    column = view.nodes.label(ZONE)
    there = column.codes == (column.values.index(zone) if zone in column.values else -2)
    bound = view.node[view.node >= 0]
    return _Zone(int(there.sum()), int(there[bound].sum()), {name: _share(view, there, name) for name in (CPU, MEMORY)})


def _share(view: Fork, there: Bools, name: str) -> float:
    """How much of what these nodes (N,) offer is requested, in percent."""
    column = view.resources[name]
    offered = int(view.allocatable[there, column].sum())
    return round(100 * int(view.requested[there, column].sum()) / offered, 1) if offered else 0.0
