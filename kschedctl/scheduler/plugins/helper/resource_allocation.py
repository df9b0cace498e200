"""What the two plugins that score by resource usage have in common: amounts, usage of nodes, strategies.

Upstream: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go, least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go and plugins/helper/shape_score.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from kschedctl.snapshot.own_rows import NodeView
from kschedctl.snapshot.pod_info import DEFAULT_REQUESTS, PodInfo

ORDINARY = 2**46
"""Amounts below it, which are those that machines have, and a hundred times as much of them, are exact as floats."""


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
        return needed is not None and not (needed > view.allocatable - self.requested).any()


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


def node_usage(
    resources: Sequence[ResourceSpec],
    requests: Sequence[int],
    usage: Usage,
    rows: Rows,
    devices: BackingDevices,
) -> tuple[Amounts, Amounts, Amounts]:
    """(X, F) each, X the resources: used with the pod, used without it, allocatable.

    Zero where a node does not offer the resource, and for scalar resources that the pod does not request. Where a node
    does not offer an extended resource its ``devices`` count, if a DeviceClass backs the resource.
    """
    view, wanted = usage.view, tuple(requests)
    key = (node_usage, tuple(resources), wanted)
    columns, unknown, from_devices, more = view.memo(key, lambda: _columns(resources, wanted, view))
    allocatable, used = _grid(view.allocatable, rows, columns, view), _grid(usage.requested, rows, columns, view)
    if unknown is None and allocatable.all():  # the usual case, in fewer steps
        return used + more, used, allocatable
    allocatable = allocatable.copy() if unknown is None else np.where(unknown, 0, allocatable)
    used = np.where(allocatable != 0, used, 0)
    for i, name in from_devices:
        if devices.backs(name):
            total, allocated = devices.totals(name)
            absent = allocatable[i] == 0
            allocatable[i, absent], used[i, absent] = total[rows][absent], allocated[rows][absent]
    requested = np.where(allocatable != 0, used + more, 0)
    return requested, used, allocatable


def _grid(matrix: Amounts, rows: Rows, columns: Rows | slice, view: NodeView) -> Amounts:
    """(X, F): some columns of some rows, side by side in memory, not to be written to."""
    picked = np.ascontiguousarray(matrix[:, columns].T)
    return picked if rows is view.nodes.rows else picked.take(rows, axis=1)


def _columns(
    resources: Sequence[ResourceSpec], requests: Sequence[int], view: NodeView
) -> tuple[Rows | slice, npt.NDArray[np.bool_] | None, list[tuple[int, str]], Amounts]:
    """The column of each resource; (X, 1): which do not count, None for none; which devices may give; (X, 1): the
    requests."""
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
    return at, unknown, devices, np.array(requests, np.int64)[:, None]


def least_allocated(strategy: ScoringStrategy, requested: Amounts, allocatable: Amounts) -> Scores:
    """(F,): the free share of each resource after the pod, weighted; of amounts (X, F)."""
    ordinary = _are_ordinary(requested, allocatable)
    if ordinary:
        free = _quotients(np.maximum(allocatable - requested, 0) * MAX_NODE_SCORE, np.maximum(allocatable, 1))
    else:
        left = np.where(requested > allocatable, 0, (allocatable - requested) * MAX_NODE_SCORE)
        free = truncating_divide(left, np.where(allocatable == 0, 1, allocatable))
    return _weighted_mean(strategy, free, allocatable != 0, ordinary)


def most_allocated(strategy: ScoringStrategy, requested: Amounts, allocatable: Amounts) -> Scores:
    """(F,): the used share of each resource after the pod, weighted; of amounts (X, F)."""
    ordinary, capacity = _are_ordinary(requested, allocatable), np.where(allocatable == 0, 1, allocatable)
    used = np.minimum(requested, allocatable) * MAX_NODE_SCORE
    return _weighted_mean(strategy, _share(used, capacity, ordinary), allocatable != 0, ordinary)


def requested_to_capacity_ratio(strategy: ScoringStrategy, requested: Amounts, allocatable: Amounts) -> Scores:
    """(F,): the profile's function of the used share, weighted over the resources that score above zero.

    The amounts are (X, F).
    """
    shape = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else ()
    points = shape_points(shape)
    capacity = np.where(allocatable == 0, 1, allocatable)
    percent = np.where(
        (allocatable == 0) | (requested > allocatable),
        100,
        _share(requested * 100, capacity, _are_ordinary(requested, capacity)),
    )
    scores = broken_linear(points, percent)
    counted = (allocatable != 0) & (scores > 0)
    weights = np.where(counted, np.array([resource.weight for resource in strategy.resources], np.int64)[:, None], 0)
    total, weight = (scores * weights).sum(axis=0), weights.sum(axis=0)
    return np.where(weight == 0, 0, round_half_away(total / np.maximum(weight, 1)))


STRATEGIES = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "RequestedToCapacityRatio": requested_to_capacity_ratio,
}


def _weighted_mean(
    strategy: ScoringStrategy, scores: Amounts, counted: npt.NDArray[np.bool_], ordinary: bool
) -> Scores:
    """(F,): of scores (X, F), those that do not count aside."""
    weights = [resource.weight for resource in strategy.resources]
    if weights and counted.all():  # the usual case, in fewer steps
        return _share(np.array(weights, np.int64) @ scores, sum(weights), ordinary)
    counting = counted * np.array(weights, np.int64)[:, None]
    return _share((scores * counting).sum(axis=0), np.maximum(counting.sum(axis=0), 1), ordinary)


def _share(amounts: Amounts, of: Amounts | int, ordinary: bool) -> Scores:
    """The quotient; what is ordinary is not below zero, where Go rounds otherwise."""
    return _quotients(amounts, of) if ordinary else truncating_divide(amounts, of)


def _quotients(amounts: Amounts, of: Amounts | int) -> Amounts:
    """Amounts divided by others, rounded down, in less time than int64 takes.

    A quotient of whole numbers that together are less than 2**53 is never rounded up to the next whole number: it is
    further from that than half the distance of two floats.
    """
    quotients: Amounts = (amounts / of).astype(np.int64)
    return quotients


def _are_ordinary(*amounts: Amounts) -> bool:
    """Whether none is below zero, or too large for the quotients of a hundred times as much."""
    return all(0 <= int(np.bitwise_or.reduce(amount, axis=None)) < ORDINARY for amount in amounts)
