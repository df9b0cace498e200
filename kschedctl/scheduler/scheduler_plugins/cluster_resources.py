"""Whether all nodes together have what a PodGroup wants at least, in the words of scheduler-plugins.

Upstream: CheckClusterResource in pkg/coscheduling/core/core.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Counts
from kschedctl.api.objects import CoschedulingPodGroup
from kschedctl.api.quantity import MILLI, Quantity, QuantityError, parse
from kschedctl.api.resource_names import CPU, PODS
from kschedctl.errors import InputError
from kschedctl.scheduler.engine.pod_groups.gangs import GangPods
from kschedctl.snapshot.fork import Fork


class ResourceGap(NamedTuple):
    """What a group wants and all nodes together do not have: in the words of Go, and in those of people."""

    message: str
    fact: str


def resource_gap(group: CoschedulingPodGroup, view: Fork, pods: GangPods) -> ResourceGap | None:
    """What is left of minResources after all nodes, None where nothing is. Raises InputError.

    What the group's own pods take counts as free. Nodes are gone through in order: what is covered once stays covered.
    """
    gaps, facts = {}, {}
    for name, wanted in sorted(_wanted(group).items()):
        column, scale = view.resources.get(name), MILLI if name == CPU else 0
        left = _left(view, pods, column) if column is not None else np.empty(0, np.int64)
        gap = _gap(wanted, left, scale)
        if gap is not None:
            free = Quantity(int(left.sum()), scale, wanted.format)
            gaps[name], facts[name] = _in_go(gap), f"{name}: {wanted} wanted together, {free} free on all nodes"
    if not gaps:
        return None
    go_map = " ".join(f"{name}:{gap}" for name, gap in gaps.items())
    return ResourceGap(f"resource gap: map[{go_map}]", "; ".join(facts.values()))


def _wanted(group: CoschedulingPodGroup) -> dict[str, Quantity]:
    quantities = {}
    for name, text in (group.spec.min_resources or {}).items():
        try:
            quantities[name] = parse(text)
        except QuantityError as error:
            where = f"PodGroup {group.metadata.namespace}/{group.metadata.name}, spec.minResources"
            raise InputError(error.what, where=where, hint=error.hint) from None
    quantities[PODS] = Quantity(group.spec.min_member)
    return quantities


def _left(view: Fork, pods: GangPods, column: int) -> Counts:
    """(N,): what each node has left of a resource, the group's pods aside; less than nothing where it is overbooked."""
    left = view.allocatable[:, column] - view.requested[:, column]
    here = pods.assigned[view.node[pods.assigned] >= 0]
    np.add.at(left, view.node[here], view.requests[view.pods.info[here], column])
    return left


def _gap(wanted: Quantity, left: Counts, scale: int) -> Quantity | None:
    """What is missing after all nodes, None once it was covered; ``left`` is in units of ``10**scale``."""
    if not len(left):
        return wanted
    covered = Quantity(int(np.cumsum(left).max()), scale)
    if wanted.cmp(covered) <= 0:
        return None
    gap = wanted if not left.any() else wanted.sub(Quantity(int(left.sum()), scale))
    return _at(gap, scale) if left.any() else gap


def _at(gap: Quantity, scale: int) -> Quantity:
    """With a scale that is no larger, as subtracting leaves it."""
    if gap.scale <= scale:
        return gap
    return Quantity(gap.mantissa * 10 ** (gap.scale - scale), scale, gap.format)


def _in_go(quantity: Quantity) -> str:
    """The struct as ``%v`` prints it: what it is called is not known inside of a map."""
    return f"{{{{{quantity.mantissa} {quantity.scale}}} {{<nil>}}  {quantity.format}}}"
