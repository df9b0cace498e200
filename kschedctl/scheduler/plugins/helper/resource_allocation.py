"""Scoring by resources: the arguments, and the scores, of NodeResourcesFit and similar plugins.

The arguments name the resources, their weights, the strategy and its score function. Upstream:
pkg/scheduler/framework/plugins/noderesources/resource_allocation.go, least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go and plugins/helper/shape_score.go,
staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Amounts, Counts, Rows, Scores
from kschedctl.api.objects import Struct
from kschedctl.api.pod_requests import Options
from kschedctl.scheduler.framework.arguments import invalid, required
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, round_half_away, truncating_divide
from kschedctl.scheduler.framework.strict_decoding import Int32, Int64
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import NodeView, get_whole_fork
from kschedctl.snapshot.pod_info import DEFAULT_REQUESTS, PodInfo

MAX_CUSTOM_PRIORITY_SCORE = 10

MAX_EXACT_AMOUNT = 2**46
"""Amounts below this limit, and a hundred times as much, are exact as floats. Real machines stay below it."""
MIN_SIZE_FOR_FLOAT_DIVISION = 512
"""The array size from which float division is faster than int64 division."""


class UtilizationShapePoint(Struct, frozen=True):
    """A point of a piecewise linear function from utilization (percent) to score (0 to 10)."""

    utilization: Int32 = 0
    score: Int32 = 0


def validate_utilization_shape(points: Sequence[UtilizationShapePoint], path: str) -> Iterator[str]:
    """Yield the validation errors of a shape's points. `path` is the field named in the messages.

    There must be at least one point, the utilizations must increase, and utilizations and scores must be in range. Only
    the first point that is out of order is reported.
    """
    if not points:
        yield required(path, "at least one point must be specified")
    for i, (previous, point) in enumerate(pairwise(points), start=1):
        if previous.utilization >= point.utilization:
            problem = "values must be sorted in increasing order"
            yield invalid(f"{path}[{i}].utilization", point.utilization, problem)
            break
    for i, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{path}[{i}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_CUSTOM_PRIORITY_SCORE:
            yield invalid(f"{path}[{i}].score", point.score, f"not in valid range [0, {MAX_CUSTOM_PRIORITY_SCORE}]")


def scale_points(shape: Sequence[UtilizationShapePoint]) -> list[tuple[int, int]]:
    """Return the points of a shape as pairs of utilization and score, with scores scaled from 0..10 to 0..100."""
    scale = MAX_NODE_SCORE // MAX_CUSTOM_PRIORITY_SCORE
    return [(point.utilization, point.score * scale) for point in shape]


def interpolate_scores(points: Sequence[tuple[int, int]], utilization: Amounts) -> Amounts:
    """Return the score for each utilization, interpolated between the points in Go's integer arithmetic.

    The points are pairs of utilization and score. The score is constant before the first and after the last point.

    >>> interpolate_scores([(0, 100), (100, 0)], np.array([-5, 0, 33, 100, 120])).tolist()
    [100, 100, 67, 0, 0]
    """
    first_x, first_y = points[0]
    _, last_y = points[-1]
    value = np.full_like(utilization, last_y)
    for (x0, y0), (x1, y1) in reversed(list(pairwise(points))):  # earlier segments overwrite what later ones set
        value = np.where(utilization <= x1, y0 + truncating_divide((y1 - y0) * (utilization - x0), x1 - x0), value)
    return np.where(utilization <= first_x, first_y, value)


class ResourceSpec(Struct, frozen=True):
    """A resource and its weight among the scored resources. An absent weight and the weight 0 mean 1."""

    name: str = ""
    weight: Int64 = 1


DEFAULT_RESOURCES = (ResourceSpec("cpu"), ResourceSpec("memory"))


class RequestedToCapacityRatioParam(Struct, frozen=True):
    """The parameters of the RequestedToCapacityRatio strategy."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Struct, frozen=True):
    """The strategy by which NodeResourcesFit scores nodes."""

    type: str = ""
    """LeastAllocated, MostAllocated or RequestedToCapacityRatio."""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


def fill_in_weights(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """Return the resources with weights of 0 set to 1, or the default resources if there are no resources."""
    return tuple(ResourceSpec(resource.name, resource.weight or 1) for resource in resources) or DEFAULT_RESOURCES


class ResourceColumn(NamedTuple):
    """The amounts of one resource on all nodes, (N,) each."""

    allocatable: Amounts
    """The amounts that the nodes offer."""
    used: Amounts
    """The amounts that pods on the nodes use."""


class BackingDevices(Protocol):
    """Devices that back extended resources."""

    def is_backed(self, resource: str) -> bool:
        """Return whether a DeviceClass backs the resource."""

    def count_devices(self, resource: str) -> tuple[Counts, Counts]:
        """Return the number of devices that back the resource and the number of allocated ones, both (N,)."""


class Usage:
    """Resource usage of nodes, including hypothetical pod changes.

    `requested` (N, R) is the usage without these changes, and `requests` (T, R) has the requests of each pod info.
    """

    def __init__(self, view: NodeView, requested: Amounts, requests: Amounts, delta: Delta = NO_CHANGE) -> None:
        self.view = view
        self.requested = delta.apply_to_sums(requested, requests) if delta else requested

    def get_column(self, name: str) -> ResourceColumn:
        """Return the allocatable and used amounts of a resource. All are 0 if no node and no pod has the resource."""
        column = self.view.resources.get(name)
        if column is None:
            zeros = np.zeros(len(self.view.nodes), np.int64)
            return ResourceColumn(zeros, zeros)
        return ResourceColumn(self.view.allocatable[:, column], self.requested[:, column])

    def fits_everywhere(self, requests: Mapping[str, int]) -> bool:
        """Return whether every node has room for the requests and for one more pod.

        Return False if no node and no pod has a requested resource.
        """
        view = self.view
        key = Usage, tuple(requests.items())
        pod_requests = view.memo(key, lambda: _build_requests_vector(requests, view))
        if pod_requests is None:
            return False
        exceeds_free_amount = pod_requests > view.allocatable - self.requested
        return not np.count_nonzero(exceeds_free_amount)


def _build_requests_vector(requests: Mapping[str, int], view: NodeView) -> Amounts | None:
    """Return the requests as a row of the nodes' matrices, with 1 for pods.

    Return None if a requested resource has no column, because no node and no pod has this resource.
    """
    if not requests.keys() <= view.resources.keys():
        return None
    single_row = view.build_matrix([{**requests, names.PODS: 1}])
    vector: Amounts = single_row[0]
    return vector


def list_pod_amounts(
    info: PodInfo, resources: Sequence[ResourceSpec], options: Options, *, nonzero: bool = False
) -> list[int]:
    """Return how much the pod requests of each of `resources`, computed with the `options`.

    If `nonzero` is true, a default is assumed for containers without a request for cpu or memory. Node resources that
    the pod's devices provide are never included.
    """
    options = options._replace(dra_node_allocatable=False)
    if nonzero:
        options = options._replace(non_missing=DEFAULT_REQUESTS)
    amounts = info.compute_amounts(options)
    return [amounts.get(resource.name, 0) for resource in resources]


class DemandedAmounts(NamedTuple):
    """The requests of a pod for some resources (X), aligned with the columns of the nodes. Pods do not change it."""

    columns: Rows | slice
    """The column of each resource in the matrices of nodes."""
    uncounted: npt.NDArray[np.bool_] | None
    """(X, 1), a mask of the resources whose amounts are taken as zero on every node, or None if there are none.

    They are resources that scores never count, scalar resources that the pod does not request, and resources that no
    node and no pod has.
    """
    from_devices: Sequence[tuple[int, str]]
    """Index and name of each resource that devices may provide."""
    requests: Amounts
    """(X, 1), the requested amounts."""
    weights: Amounts
    """(X,), the weights of the resources."""
    offered_everywhere: bool
    """True if all nodes of the snapshot offer all the resources, in amounts below MAX_EXACT_AMOUNT."""


class NodeUsage(NamedTuple):
    """Usage of some resources (X) on the nodes that are scored (F).

    The amounts of a resource that a node does not offer are zero. So are the amounts of a scalar resource that the pod
    does not request.
    """

    requested: Amounts
    """(X, F), the amounts used including the pod."""
    used: Amounts
    """(X, F), the amounts used without the pod."""
    allocatable: Amounts
    """(X, F), the amounts that the nodes offer."""
    weights: Amounts
    """(X,), the weights of the resources."""
    offered_everywhere: bool = False
    """True if all allocatable amounts are above zero and below MAX_EXACT_AMOUNT."""


def get_demanded_amounts(resources: Sequence[ResourceSpec], requests: Sequence[int], view: NodeView) -> DemandedAmounts:
    """Return the pod's requests for the resources, aligned with the columns of the nodes.

    The result is cached for equal resources and requests.
    """
    key = (get_demanded_amounts, tuple(resources), tuple(requests))
    return view.memo(key, lambda: _build_demanded_amounts(resources, requests, view))


def compute_node_usage(
    demanded: DemandedAmounts, view: NodeView, requested: Amounts, rows: Rows, devices: Callable[[], BackingDevices]
) -> NodeUsage:
    """Return the usage of the scored nodes at `rows`, both with and without the pod to be placed.

    `demanded` has the pod's requests, and `requested` is a matrix (nodes, resources) of the usage of all nodes without
    the pod. If a node does not offer an extended resource that a DeviceClass backs, the node's devices are counted
    instead. `devices` is called only if such a resource is requested.
    """
    allocatable = _select_cells(view.allocatable, rows, demanded.columns, view)
    used = _select_cells(requested, rows, demanded.columns, view)
    if demanded.offered_everywhere:
        return NodeUsage(used + demanded.requests, used, allocatable, demanded.weights, offered_everywhere=True)

    # Resources that do not count are treated as if no node offered them. Nothing is used of what a node does not offer.
    allocatable = allocatable.copy() if demanded.uncounted is None else np.where(demanded.uncounted, 0, allocatable)
    used = np.where(allocatable != 0, used, 0)

    # Devices count where the node does not offer a resource itself.
    if demanded.from_devices:
        backing = devices()
        for i, name in demanded.from_devices:
            if backing.is_backed(name):
                total, allocated = backing.count_devices(name)
                not_offered = allocatable[i] == 0
                allocatable[i, not_offered] = total[rows][not_offered]
                used[i, not_offered] = allocated[rows][not_offered]

    with_pod = np.where(allocatable != 0, used + demanded.requests, 0)
    return NodeUsage(with_pod, used, allocatable, demanded.weights)


def _select_cells(matrix: Amounts, rows: Rows, columns: Rows | slice, view: NodeView) -> Amounts:
    """Return the cells at `rows` and `columns` of a matrix (nodes, resources), transposed to (resources, nodes).

    If `rows` is the array of all rows of the `view`, no rows are selected, which is faster. The result must not be
    written to, because it can be a part of the matrix.
    """
    of_all_nodes = np.ascontiguousarray(matrix[:, columns].T)
    if rows is view.nodes.rows:  # this array has the rows of all nodes
        return of_all_nodes
    return of_all_nodes.take(rows, axis=1)


def _build_demanded_amounts(
    resources: Sequence[ResourceSpec], requests: Sequence[int], view: NodeView
) -> DemandedAmounts:
    """Build the demanded amounts of a pod: its requests, and the column of each resource in the nodes' matrices.

    Resources that do not count for scores have no column, and neither do scalar resources that the pod does not
    request.
    """
    resource_names = [resource.name for resource in resources]
    is_skipped = [
        request == 0 and names.is_scalar(name) for name, request in zip(resource_names, requests, strict=True)
    ]
    from_devices = [
        (i, name) for i, name in enumerate(resource_names) if not is_skipped[i] and names.is_dra_extended(name)
    ]

    # The column of each resource, or `no_column` if the resource does not count or no node and no pod has it
    no_column = -1
    columns = []
    for i, name in enumerate(resource_names):
        is_counted = not is_skipped[i] and names.is_counted(name)
        columns.append(view.resources.get(name, no_column) if is_counted else no_column)
    column_numbers = np.array(columns, np.int64)
    all_have_columns = no_column not in columns
    # In place of `no_column`, numpy selects the last column, whose amounts this mask excludes.
    uncounted = None if all_have_columns else (column_numbers == no_column)[:, None]

    # Adjacent columns are selected by a slice, which numpy does not copy.
    selection: Rows | slice = column_numbers
    if all_have_columns and _are_adjacent(columns):
        selection = slice(columns[0], columns[-1] + 1)

    offered = get_whole_fork(view).allocatable[:, selection]
    is_offered_everywhere = bool(columns) and all_have_columns and bool(offered.all())
    return DemandedAmounts(
        selection,
        uncounted,
        from_devices=from_devices,
        requests=np.array(requests, np.int64)[:, None],
        weights=np.array([resource.weight for resource in resources], np.int64),
        offered_everywhere=is_offered_everywhere and _are_exact_as_floats(offered),
    )


def _are_adjacent(columns: Sequence[int]) -> bool:
    """Return whether the columns follow each other without a gap. Return False if there are none."""
    return bool(columns) and columns == [*range(columns[0], columns[-1] + 1)]


def score_least_allocated(strategy: ScoringStrategy, usage: NodeUsage) -> Scores:
    """Score each node from 0 to 100 by the weighted mean share of its resources that stays free once the pod is placed.

    The mean is over the resources that the node offers. A resource that would be overused counts as not free.
    `strategy` is not used.
    """
    requested, allocatable = usage.requested, usage.allocatable
    # Usually all nodes offer all resources, so that no divisor is zero and all resources count. The general formula
    # below would give the same scores in more steps.
    if usage.offered_everywhere and _are_exact_as_floats(requested):
        free = np.maximum(allocatable - requested, 0)
        return _compute_weighted_mean(_floor_divide(free * MAX_NODE_SCORE, allocatable), usage)

    free = np.where(requested > allocatable, 0, allocatable - requested)
    shares = truncating_divide(free * MAX_NODE_SCORE, np.where(allocatable == 0, 1, allocatable))
    return _compute_weighted_mean_of_offered(shares, usage)


def score_most_allocated(strategy: ScoringStrategy, usage: NodeUsage) -> Scores:
    """Score each node from 0 to 100 by the weighted mean share of its resources in use once the pod is placed.

    The mean is over the resources that the node offers. A resource that would be overused counts as fully used.
    `strategy` is not used.
    """
    requested, allocatable = usage.requested, usage.allocatable
    used = np.minimum(requested, allocatable) * MAX_NODE_SCORE
    # The usual case, in fewer steps: no divisor is zero and all resources count
    if usage.offered_everywhere and _are_exact_as_floats(requested):
        return _compute_weighted_mean(_floor_divide(used, allocatable), usage)
    shares = truncating_divide(used, np.where(allocatable == 0, 1, allocatable))
    return _compute_weighted_mean_of_offered(shares, usage)


def score_requested_to_capacity_ratio(strategy: ScoringStrategy, usage: NodeUsage) -> Scores:
    """Score each node by the weighted mean of the scores that the profile's shape gives to its resources.

    The shape maps the utilization of a resource, once the pod is placed, to a score. Resources that score 0, or that a
    node does not offer, are left out of the mean. Without any other resource, the node scores 0.
    """
    requested, allocatable = usage.requested, usage.allocatable
    shape = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else ()
    divisor = np.where(allocatable == 0, 1, allocatable)
    is_full = (allocatable == 0) | (requested > allocatable)
    percent = np.where(is_full, 100, truncating_divide(requested * 100, divisor))

    scores = interpolate_scores(scale_points(shape), percent)
    counted = (allocatable != 0) & (scores > 0)
    weights = np.where(counted, usage.weights[:, None], 0)
    weighted_sum = (scores * weights).sum(axis=0)
    total_weight = weights.sum(axis=0)
    return np.where(total_weight == 0, 0, round_half_away(weighted_sum / np.maximum(total_weight, 1)))


STRATEGIES = {
    "LeastAllocated": score_least_allocated,
    "MostAllocated": score_most_allocated,
    "RequestedToCapacityRatio": score_requested_to_capacity_ratio,
}


def _compute_weighted_mean(shares: Amounts, usage: NodeUsage) -> Scores:
    """Return each node's weighted mean of the non-negative shares of all resources, rounded down."""
    mean: Scores = usage.weights.dot(shares) // sum(usage.weights.tolist())
    return mean


def _compute_weighted_mean_of_offered(shares: Amounts, usage: NodeUsage) -> Scores:
    """Return each node's weighted mean of the shares of the resources that the node offers.

    The mean is 0 for a node that offers none of them.
    """
    weights = (usage.allocatable != 0) * usage.weights[:, None]
    return truncating_divide((shares * weights).sum(axis=0), np.maximum(weights.sum(axis=0), 1))


def _floor_divide(amounts: Amounts, divisors: Amounts) -> Amounts:
    """Return the quotients of non-negative amounts, rounded down.

    Large arrays are divided as floats, which is faster. The sum of an amount and its divisor must be below 2**53. The
    float quotient is then never rounded up to the next integer, because their difference exceeds half the distance
    between two adjacent floats.
    """
    quotients: Amounts
    if amounts.size < MIN_SIZE_FOR_FLOAT_DIVISION:
        quotients = amounts // divisors
    else:
        quotients = (amounts / divisors).astype(np.int64)
    return quotients


def _are_exact_as_floats(amounts: Amounts) -> bool:
    """Return whether all amounts are non-negative and small enough for exact float division."""
    # The bitwise OR is negative if an amount is, and below a power of two only if all amounts are.
    return 0 <= int(np.bitwise_or.reduce(amounts, axis=None)) < MAX_EXACT_AMOUNT
