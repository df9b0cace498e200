"""Arguments of plugins that score by resources: the resources, their weights, the strategy and its score function.

Upstream: pkg/scheduler/framework/plugins/helper/shape_score.go,
staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from kschedctl.api.arrays import Amounts
from kschedctl.api.objects import Struct
from kschedctl.scheduler.framework.arguments import invalid, required
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, truncating_divide
from kschedctl.scheduler.framework.strict_decoding import Int32, Int64

MAX_CUSTOM_PRIORITY_SCORE = 10


class UtilizationShapePoint(Struct, frozen=True):
    """A point of a piecewise linear function from utilization (percent) to score (0 to 10)."""

    utilization: Int32 = 0
    score: Int32 = 0


def validate_shape(points: Sequence[UtilizationShapePoint], path: str) -> Iterator[str]:
    """Yield the validation errors of a shape's points. `path` is the field named in the messages.

    There must be at least one point, and the utilizations must increase. Only the first point that is out of order is
    reported.
    """
    if not points:
        yield required(path, "at least one point must be specified")
    for i in range(1, len(points)):
        if points[i - 1].utilization >= points[i].utilization:
            problem = "values must be sorted in increasing order"
            yield invalid(f"{path}[{i}].utilization", points[i].utilization, problem)
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


def evaluate_piecewise_linear(points: Sequence[tuple[int, int]], utilization: Amounts) -> Amounts:
    """Return the score for each utilization, interpolated between the points in Go's integer arithmetic.

    The points are pairs of utilization and score. The score is constant before the first and after the last point.

    >>> evaluate_piecewise_linear([(0, 100), (100, 0)], np.array([-5, 0, 33, 100, 120])).tolist()
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
