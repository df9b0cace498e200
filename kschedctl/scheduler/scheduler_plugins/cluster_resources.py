"""A check that all nodes together have a PodGroup's minResources, with the messages of scheduler-plugins.

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
    """Resources that a PodGroup requests and all nodes together lack."""

    message: str
    """The gap as upstream's message prints it."""
    fact: str
    """The gap as a sentence for users."""


def find_resource_gap(group: CoschedulingPodGroup, view: Fork, pods: GangPods) -> ResourceGap | None:
    """Return the group's minResources that all nodes together lack, or None if they suffice.

    The resources of the group's assigned pods count as free. As upstream, stop adding up nodes once a request is
    covered: overcommitted nodes after that do not count. Raises InputError for invalid minResources.
    """
    gaps = []
    facts = []
    for name, requested in sorted(_parse_min_resources(group).items()):
        column = view.resources.get(name)
        scale = MILLI if name == CPU else 0
        free_amounts = np.empty(0, np.int64)  # no node knows the resource
        if column is not None:
            free_amounts = _compute_free_amounts(view, pods, column)
        missing = _find_missing_amount(requested, free_amounts, scale)
        if missing is not None:
            free = Quantity(int(free_amounts.sum()), scale, requested.format)
            gaps.append(f"{name}:{_format_like_go(missing)}")
            facts.append(f"{name}: the group requests {requested}; all nodes together have {free} free")
    if not gaps:
        return None
    return ResourceGap(f"resource gap: map[{' '.join(gaps)}]", "; ".join(facts))


def _parse_min_resources(group: CoschedulingPodGroup) -> dict[str, Quantity]:
    """Parse a group's minResources and add one "pods" per member. Raises InputError."""
    quantities = {}
    for name, amount in (group.spec.min_resources or {}).items():
        try:
            quantities[name] = parse(amount)
        except QuantityError as error:
            field = f"PodGroup {group.metadata.namespace}/{group.metadata.name}, spec.minResources"
            raise InputError(error.what, where=field, hint=error.hint) from None
    quantities[PODS] = Quantity(group.spec.min_member)
    return quantities


def _compute_free_amounts(view: Fork, pods: GangPods, column: int) -> Counts:
    """Return the free amount (N,) of a resource on each node, not counting the group's own pods.

    The amount is negative for an overcommitted node.
    """
    free = view.allocatable[:, column] - view.requested[:, column]
    placed = pods.assigned[view.node[pods.assigned] >= 0]
    np.add.at(free, view.node[placed], view.requests[view.pods.info[placed], column])
    return free


def _find_missing_amount(requested: Quantity, free: Counts, scale: int) -> Quantity | None:
    """Return how much of a resource all nodes together lack, or None if they suffice.

    ``free`` (N,) is in units of ``10**scale``.
    """
    if not len(free):
        return requested
    largest_sum = Quantity(int(np.cumsum(free).max()), scale)  # upstream stops there if it covers the request
    if requested.cmp(largest_sum) <= 0:
        return None
    if not free.any():
        return requested
    missing = requested.sub(Quantity(int(free.sum()), scale))
    return _rescale(missing, scale)


def _rescale(quantity: Quantity, scale: int) -> Quantity:
    """Return a quantity converted to a scale that is at most ``scale``, as Quantity.Sub of Go does."""
    if quantity.scale <= scale:
        return quantity
    return Quantity(quantity.mantissa * 10 ** (quantity.scale - scale), scale, quantity.format)


def _format_like_go(quantity: Quantity) -> str:
    """Format a quantity as Go prints the struct with %v inside a map."""
    return f"{{{{{quantity.mantissa} {quantity.scale}}} {{<nil>}}  {quantity.format}}}"
