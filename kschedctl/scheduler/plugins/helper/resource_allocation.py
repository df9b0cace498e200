"""What the two plugins that score by resource usage have in common: amounts, usage of nodes, strategies.

Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go, least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go and plugins/helper/shape_score.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Amounts, Counts, Rows, Scores
from kschedctl.api.pod_requests import Options
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, round_half_away, truncating_divide
from kschedctl.scheduler.plugins.helper.scoring_strategy import ResourceSpec, ScoringStrategy
from kschedctl.scheduler.plugins.helper.shape import broken_linear, shape_points
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.own_rows import NodeView, of_all_nodes
from kschedctl.snapshot.pod_info import DEFAULT_REQUESTS, PodInfo

ORDINARY = 2**46
"""Amounts below it, which are those that machines have, and a hundred times as much of them, are exact as floats."""
MANY = 512
"""From so many on floats are divided sooner than whole numbers."""


class ResourceColumn(NamedTuple):
    """(N,) each: what the nodes offer of one resource, and what is used of it."""

    allocatable: Amounts
    used: Amounts


class BackingDevices(Protocol):
    """The devices that stand for extended resources."""

    def backs(self, resource: str) -> bool:
        """Whether a DeviceClass backs the resource."""

    def totals(self, resource: str) -> tuple[Counts, Counts]:
        """(N,) each: how many devices that back the resource a node has, and how many of them are allocated."""


class Usage:
    """Resource usage of nodes by ``requested`` (N, R), under a hypothesis priced by ``requests`` (T, R)."""

    def __init__(self, view: NodeView, requested: Amounts, requests: Amounts, delta: Delta = NO_CHANGE) -> None:
        self.view = view
        self.requested = delta.added(requested, requests) if delta else requested

    def of(self, name: str) -> ResourceColumn:
        """One resource; all zero when no node and no pod of the snapshot knows it."""
        column = self.view.resources.get(name)
        if column is None:
            none = np.zeros(len(self.view.nodes), np.int64)
            return ResourceColumn(none, none)
        return ResourceColumn(self.view.allocatable[:, column], self.requested[:, column])

    def leaves(self, requests: Mapping[str, int]) -> bool:
        """Whether every node has as much left of everything, and room for a pod more."""
        view, wanted = self.view, tuple(requests.items())
        needed = view.memo((Usage, wanted), lambda: _needed(requests, view))
        return needed is not None and not np.count_nonzero(needed > view.allocatable - self.requested)


def _needed(requests: Mapping[str, int], view: NodeView) -> Amounts | None:
    """(R,): the requests of a pod, and 1 of pods; None when some is of a resource that the snapshot does not know."""
    if not requests.keys() <= view.resources.keys():
        return None
    needed: Amounts = view.matrix([{**requests, names.PODS: 1}])[0]
    return needed


def pod_amounts(info: PodInfo, resources: Sequence[ResourceSpec], options: Options, nonzero: bool = False) -> list[int]:
    """What the pod requests of each resource; ``nonzero`` counts containers without cpu or memory with a default.

    What its devices give of node resources does not count here, whatever its status says.
    """
    options = options._replace(dra_node_allocatable=False)
    amounts = info.amounts(options._replace(non_missing=DEFAULT_REQUESTS) if nonzero else options)
    return [amounts.get(resource.name, 0) for resource in resources]


class AskedAmounts(NamedTuple):
    """What a pod asks of some resources, as nodes have them; no pod changes it.

    ``columns``: of each resource in the matrices of nodes; ``unknown`` (X, 1): which do not count, None for none;
    ``from_devices``: which devices may give; ``requests`` and ``weights``, (X, 1) and (X,). ``plain``: all nodes of the
    snapshot offer all of them, in ordinary amounts.
    """

    columns: Rows | slice
    unknown: npt.NDArray[np.bool_] | None
    from_devices: Sequence[tuple[int, str]]
    requests: Amounts
    weights: Amounts
    plain: bool


class NodeUsage(NamedTuple):
    """(X, F) each, X the resources: used with the pod, used without it, allocatable; ``weights`` (X,).

    Zero where a node does not offer the resource, and for scalar resources that the pod does not request. ``plain``: no
    allocatable amount is zero, below it, or out of the ordinary.
    """

    requested: Amounts
    used: Amounts
    allocatable: Amounts
    weights: Amounts
    plain: bool = False


def asked_of(resources: Sequence[ResourceSpec], requests: Sequence[int], view: NodeView) -> AskedAmounts:
    """What a pod that requests so much of each of the resources asks of nodes."""
    key = (asked_of, tuple(resources), tuple(requests))
    return view.memo(key, lambda: _asked(resources, requests, view))


def node_usage(
    asked: AskedAmounts, view: NodeView, requested: Amounts, rows: Rows, devices: Callable[[], BackingDevices]
) -> NodeUsage:
    """How nodes are used of which ``requested`` (N, R) is taken.

    Where one does not offer an extended resource its ``devices`` count, if a class backs it.
    """
    columns, unknown = asked.columns, asked.unknown
    allocatable, used = _grid(view.allocatable, rows, columns, view), _grid(requested, rows, columns, view)
    if asked.plain:
        return NodeUsage(used + asked.requests, used, allocatable, asked.weights, plain=True)
    allocatable = allocatable.copy() if unknown is None else np.where(unknown, 0, allocatable)
    used = np.where(allocatable != 0, used, 0)
    if asked.from_devices:
        backing = devices()
        for i, name in asked.from_devices:
            if backing.backs(name):
                total, allocated = backing.totals(name)
                absent = allocatable[i] == 0
                allocatable[i, absent], used[i, absent] = total[rows][absent], allocated[rows][absent]
    with_pod = np.where(allocatable != 0, used + asked.requests, 0)
    return NodeUsage(with_pod, used, allocatable, asked.weights)


def _grid(matrix: Amounts, rows: Rows, columns: Rows | slice, view: NodeView) -> Amounts:
    """(X, F): some columns of some rows, side by side in memory, not to be written to."""
    picked = np.ascontiguousarray(matrix[:, columns].T)
    return picked if rows is view.nodes.rows else picked.take(rows, axis=1)


def _asked(resources: Sequence[ResourceSpec], requests: Sequence[int], view: NodeView) -> AskedAmounts:
    wanted = [r.name for r in resources]
    skipped = [request == 0 and names.is_scalar(name) for name, request in zip(wanted, requests, strict=True)]
    columns = [
        -1 if skip or not names.is_counted(name) else view.resources.get(name, -1)
        for name, skip in zip(wanted, skipped, strict=True)
    ]
    devices = [(i, name) for i, name in enumerate(wanted) if not skipped[i] and names.is_dra_extended(name)]
    numbers = np.array(columns, np.int64)
    unknown = (numbers < 0)[:, None] if -1 in columns else None
    side_by_side = columns and unknown is None and columns == [*range(columns[0], columns[-1] + 1)]
    at = slice(columns[0], columns[-1] + 1) if side_by_side else numbers
    offered = of_all_nodes(view).allocatable[:, at]
    plain = bool(columns) and unknown is None and bool(offered.all()) and _are_ordinary(offered)
    weights = np.array([r.weight for r in resources], np.int64)
    return AskedAmounts(at, unknown, devices, np.array(requests, np.int64)[:, None], weights, plain)


def least_allocated(strategy: ScoringStrategy, usage: NodeUsage) -> Scores:
    """(F,): the free share of each resource after the pod, weighted."""
    requested, allocatable = usage.requested, usage.allocatable
    if usage.plain and _are_ordinary(requested):  # the usual case, in fewer steps
        free = np.maximum(allocatable - requested, 0)
        return _weighted(_quotients(free * MAX_NODE_SCORE, allocatable), usage)
    left = np.where(requested > allocatable, 0, (allocatable - requested) * MAX_NODE_SCORE)
    return _weighted_of_some(truncating_divide(left, np.where(allocatable == 0, 1, allocatable)), usage)


def most_allocated(strategy: ScoringStrategy, usage: NodeUsage) -> Scores:
    """(F,): the used share of each resource after the pod, weighted."""
    requested, allocatable = usage.requested, usage.allocatable
    used = np.minimum(requested, allocatable) * MAX_NODE_SCORE
    if usage.plain and _are_ordinary(requested):
        return _weighted(_quotients(used, allocatable), usage)
    return _weighted_of_some(truncating_divide(used, np.where(allocatable == 0, 1, allocatable)), usage)


def requested_to_capacity_ratio(strategy: ScoringStrategy, usage: NodeUsage) -> Scores:
    """(F,): the profile's function of the used share, weighted over the resources that score above zero."""
    requested, allocatable = usage.requested, usage.allocatable
    shape = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else ()
    shares = truncating_divide(requested * 100, np.where(allocatable == 0, 1, allocatable))
    percent = np.where((allocatable == 0) | (requested > allocatable), 100, shares)
    scores = broken_linear(shape_points(shape), percent)
    counted = (allocatable != 0) & (scores > 0)
    weights = np.where(counted, usage.weights[:, None], 0)
    total, weight = (scores * weights).sum(axis=0), weights.sum(axis=0)
    return np.where(weight == 0, 0, round_half_away(total / np.maximum(weight, 1)))


STRATEGIES = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "RequestedToCapacityRatio": requested_to_capacity_ratio,
}


def _weighted(shares: Amounts, usage: NodeUsage) -> Scores:
    """(F,): the mean of shares (X, F) that are not below zero."""
    mean: Scores = usage.weights.dot(shares) // sum(usage.weights.tolist())
    return mean


def _weighted_of_some(shares: Amounts, usage: NodeUsage) -> Scores:
    """(F,): the mean of shares (X, F), resources that a node does not offer aside."""
    counting = (usage.allocatable != 0) * usage.weights[:, None]
    return truncating_divide((shares * counting).sum(axis=0), np.maximum(counting.sum(axis=0), 1))


def _quotients(amounts: Amounts, of: Amounts) -> Amounts:
    """Ordinary amounts divided by others, rounded down, where there are many in less time than int64 takes.

    A quotient of whole numbers that together are less than 2**53 is never rounded up to the next whole number: it is
    further from that than half the distance of two floats.
    """
    quotients: Amounts = amounts // of if amounts.size < MANY else (amounts / of).astype(np.int64)
    return quotients


def _are_ordinary(amounts: Amounts) -> bool:
    """Whether none is below zero, or too large for the quotients of a hundred times as much."""
    return 0 <= int(np.bitwise_or.reduce(amounts, axis=None)) < ORDINARY
