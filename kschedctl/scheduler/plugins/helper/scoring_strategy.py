"""Arguments of plugins that score by resources: the resources, their weights, and the strategy.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from kschedctl.api.objects import Struct
from kschedctl.scheduler.framework.strict_decoding import Int64
from kschedctl.scheduler.plugins.helper.shape import UtilizationShapePoint


class ResourceSpec(Struct, frozen=True):
    """A resource and its weight among the scored resources, which is 1 if absent or 0."""

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


def with_weights(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """Return the resources with missing weights set to 1, or the default resources if there are none."""
    return tuple(ResourceSpec(resource.name, resource.weight or 1) for resource in resources) or DEFAULT_RESOURCES
