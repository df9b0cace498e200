"""The arguments of the in-tree plugins, typed, and their defaults.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/v1/defaults.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import msgspec

from kschedctl.api.objects import (
    NodeAffinity,
    Struct,
    TopologySpreadConstraint,
)
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.configuration.strict_decoding import GoDuration, Int32, Int64

MAX_CUSTOM_PRIORITY_SCORE = 10


class ResourceSpec(Struct, frozen=True):
    """A resource and its weight among the resources, 1 when absent or 0."""

    name: str = ""
    weight: Int64 = 1


class UtilizationShapePoint(Struct, frozen=True):
    """A point of a piecewise linear function from utilization (percent) to score (0 to 10)."""

    utilization: Int32 = 0
    score: Int32 = 0


DEFAULT_RESOURCES = (ResourceSpec("cpu"), ResourceSpec("memory"))


class RequestedToCapacityRatioParam(Struct, frozen=True):
    """The function of the strategy RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Struct, frozen=True):
    """How NodeResourcesFit scores nodes; ``type`` is LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(Struct, frozen=True):
    """How many candidate nodes a preemption dry-runs at least, relative and absolute."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(Struct, frozen=True):
    """How long (seconds) allocating for a node and waiting for binding conditions may take; None: no limit."""

    filter_timeout: GoDuration | None = None
    binding_timeout: GoDuration | None = None


class InterPodAffinityArgs(Struct, frozen=True):
    """The weight of existing pods' required affinity terms, and whether their preferred ones count."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Struct, frozen=True):
    """A node affinity that every pod of the profile has besides its own."""

    added_affinity: NodeAffinity | None = None


class NodeResourcesBalancedAllocationArgs(Struct, frozen=True):
    """The resources whose utilizations should be alike."""

    resources: tuple[ResourceSpec, ...] = ()


class NodeResourcesFitArgs(Struct, frozen=True):
    """Extended resources (or whole groups, the part before the slash) that Filter ignores, and how nodes are scored."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy("LeastAllocated", DEFAULT_RESOURCES)


class PodTopologySpreadArgs(Struct, frozen=True):
    """Constraints for pods that have none: the given ones (``List``) or the scheduler's own (``System``)."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class VolumeBindingArgs(Struct, frozen=True):
    """How long (seconds) binding volumes may take, and the score of a utilization of storage capacity."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


ARGS: dict[str, type[Struct]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""Plugin -> its arguments; the other plugins have none."""


def with_defaults(args: Any, gates: FeatureGates) -> Any:
    """The arguments with those defaults that depend on gates or on other fields."""
    changes: dict[str, object] = {}
    match args:
        case DynamicResourcesArgs():
            changes = _timeout_defaults(args, gates)
        case NodeResourcesBalancedAllocationArgs():
            changes["resources"] = _weighted(args.resources)
        case NodeResourcesFitArgs():
            strategy = args.scoring_strategy
            changes["scoring_strategy"] = msgspec.structs.replace(strategy, resources=_weighted(strategy.resources))
        case PodTopologySpreadArgs(defaulting_type=""):
            changes["defaulting_type"] = "System"
        case VolumeBindingArgs() if not args.shape and gates.enabled("StorageCapacityScoring"):
            changes["shape"] = (UtilizationShapePoint(0, MAX_CUSTOM_PRIORITY_SCORE), UtilizationShapePoint(100, 0))
    return msgspec.structs.replace(args, **changes) if changes else args


def _weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(ResourceSpec(resource.name, resource.weight or 1) for resource in resources) or DEFAULT_RESOURCES


def _timeout_defaults(args: DynamicResourcesArgs, gates: FeatureGates) -> dict[str, object]:
    defaults: dict[str, object] = {}
    if args.filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
        defaults["filter_timeout"] = GoDuration(10)
    if args.binding_timeout is None and waits_for_binding(gates):
        defaults["binding_timeout"] = GoDuration(600)
    return defaults


def waits_for_binding(gates: FeatureGates) -> bool:
    """Whether allocated devices may have conditions that binding waits for."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")
