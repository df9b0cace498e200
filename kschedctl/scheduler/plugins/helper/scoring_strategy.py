"""How plugins score by resources: which ones, their weights, and by which function.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from kschedctl.api.objects import Struct
from kschedctl.scheduler.framework.strict_decoding import Int64
from kschedctl.scheduler.plugins.helper.shape import UtilizationShapePoint


class ResourceSpec(Struct, frozen=True):
    """A resource and its weight among the resources, 1 when absent or 0."""

    name: str = ""
    weight: Int64 = 1


DEFAULT_RESOURCES = (ResourceSpec("cpu"), ResourceSpec("memory"))


class RequestedToCapacityRatioParam(Struct, frozen=True):
    """The function of the strategy RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Struct, frozen=True):
    """How NodeResourcesFit scores nodes; ``type`` is LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


def with_weights(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """The resources with the default weight, cpu and memory where none are named."""
    return tuple(ResourceSpec(resource.name, resource.weight or 1) for resource in resources) or DEFAULT_RESOURCES
