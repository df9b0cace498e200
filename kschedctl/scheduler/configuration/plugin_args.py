"""The arguments of the in-tree plugins, typed: their defaults, and what kube-scheduler refuses in them.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from msgspec.structs import replace

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.node_selector import NodeSelectorError, compile_node_selector, compile_preferred_terms
from kschedctl.api.objects import NodeAffinity, Struct, TopologySpreadConstraint
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.configuration.field_errors import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    qualified_name_errors,
    required,
)
from kschedctl.scheduler.configuration.strict_decoding import GoDuration, Int32, Int64, came_with

SCORING_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
MAX_CUSTOM_PRIORITY_SCORE = 10


class PluginArgs(Struct, frozen=True):
    """The arguments of a plugin, as its class names them in ``args_type``."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """The same with those defaults that depend on gates or on other fields."""
        return self

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        """What the scheduler refuses in defaulted arguments; the paths are relative to them."""
        return iter(())


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


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """How many candidate nodes a preemption dry-runs at least, relative and absolute."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            yield invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            both = "cannot be zero at the same time as"
            yield invalid("minCandidateNodesPercentage", percentage, f"{both} minCandidateNodesAbsolute")
            yield invalid("minCandidateNodesAbsolute", absolute, f"{both} minCandidateNodesPercentage")


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """How long (seconds) allocating for a node and waiting for binding conditions may take; None: no limit."""

    filter_timeout: GoDuration | None = None
    binding_timeout: Annotated[GoDuration | None, came_with(35)] = None

    def with_defaults(self, gates: FeatureGates) -> Self:
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
            filter_timeout = GoDuration(10)
        if binding_timeout is None and waits_for_binding(gates):
            binding_timeout = GoDuration(600)
        return replace(self, filter_timeout=filter_timeout, binding_timeout=binding_timeout)

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        if self.filter_timeout is not None:
            if not gates.enabled("DRASchedulerFilterTimeout"):
                yield forbidden("filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")
            elif self.filter_timeout < 0:
                yield invalid("filterTimeout", f"{self.filter_timeout:g}s", "must be zero or positive")
        if self.binding_timeout is not None:
            if not waits_for_binding(gates):
                both = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"
                yield forbidden("bindingTimeout", f"{both} feature gate is disabled")
            elif self.binding_timeout < 1:
                yield invalid("bindingTimeout", f"{self.binding_timeout:g}s", "must be at least 1 second")


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """The weight of existing pods' required affinity terms, and whether their preferred ones count."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            yield invalid("hardPodAffinityWeight", self.hard_pod_affinity_weight, "not in valid range [0, 100]")


class NodeAffinityArgs(PluginArgs, frozen=True):
    """A node affinity that every pod of the profile has besides its own."""

    added_affinity: NodeAffinity | None = None

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        affinity, path = self.added_affinity or NodeAffinity(), "addedAffinity"
        if required_terms := affinity.required_during_scheduling_ignored_during_execution:
            at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
            for term in compile_node_selector(required_terms, at).terms:
                yield from term.errors
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
        try:
            compile_preferred_terms(affinity.preferred_during_scheduling_ignored_during_execution, at)
        except NodeSelectorError as error:
            yield error.what


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """The resources whose utilizations should be alike."""

    resources: tuple[ResourceSpec, ...] = ()

    def with_defaults(self, gates: FeatureGates) -> Self:
        return replace(self, resources=_weighted(self.resources))

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        seen = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                yield duplicate(f"resources[{i}].name", resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield invalid(f"resources[{i}].weight", resource.weight, "must be 1")


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Extended resources (or whole groups, the part before the slash) that Filter ignores, and how nodes are scored."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy("LeastAllocated", DEFAULT_RESOURCES)

    def with_defaults(self, gates: FeatureGates) -> Self:
        strategy = self.scoring_strategy
        return replace(self, scoring_strategy=replace(strategy, resources=_weighted(strategy.resources)))

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        for i, name in enumerate(self.ignored_resources):
            yield from qualified_name_errors(f"ignoredResources[{i}]", name)
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield invalid(f"ignoredResourceGroups[{i}]", group, "resource group name can't contain '/'")
            yield from qualified_name_errors(f"ignoredResourceGroups[{i}]", group)
        yield from _scoring_strategy(self.scoring_strategy)


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Constraints for pods that have none: the given ones (``List``) or the scheduler's own (``System``)."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"

    def with_defaults(self, gates: FeatureGates) -> Self:
        return replace(self, defaulting_type=self.defaulting_type or "System")

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        if self.defaulting_type not in ("System", "List"):
            yield not_supported("defaultingType", self.defaulting_type, ("System", "List"))
        elif self.defaulting_type == "System" and self.default_constraints:
            yield invalid("defaultingType", self.defaulting_type, "when .defaultConstraints are not empty")
        seen = set()
        for i, constraint in enumerate(self.default_constraints):
            yield from _constraint_errors(constraint, f"defaultConstraints[{i}]")
            identity = (constraint.topology_key, constraint.when_unsatisfiable)
            if identity in seen:
                yield duplicate(f"defaultConstraints[{i}]", f"{{{', '.join(identity)}}}")
            seen.add(identity)


CAPACITY_GATE = ByVersion(
    "the gate with which VolumeBinding scores by storage capacity",
    (("", "VolumeCapacityPriority"), ("1.33", "StorageCapacityScoring")),
    "#128184",
)
CAPACITY_SHAPE = ByVersion(
    "the scores of storage that is empty and of full one, unless arguments say otherwise",
    (("", (0, MAX_CUSTOM_PRIORITY_SCORE)), ("1.33", (MAX_CUSTOM_PRIORITY_SCORE, 0))),
    "#128184",
)


class VolumeBindingArgs(PluginArgs, frozen=True):
    """How long (seconds) binding volumes may take, and the score of a utilization of storage capacity."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def with_defaults(self, gates: FeatureGates) -> Self:
        if self.shape or not gates.enabled(CAPACITY_GATE.at(gates.release)):
            return self
        empty, full = CAPACITY_SHAPE.at(gates.release)
        return replace(self, shape=(UtilizationShapePoint(0, empty), UtilizationShapePoint(100, full)))

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        if self.bind_timeout_seconds < 0:
            rule = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid("bindTimeoutSeconds", self.bind_timeout_seconds, rule)
        gate = CAPACITY_GATE.at(gates.release)
        if gates.enabled(gate):
            yield from _function_shape(self.shape or (), "shape")
        elif self.shape is not None:
            rule = f"unexpected field `shape`, remove it or turn on the feature gate {gate}"
            yield invalid("shape", self.shape, rule)


def _weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(ResourceSpec(resource.name, resource.weight or 1) for resource in resources) or DEFAULT_RESOURCES


def waits_for_binding(gates: FeatureGates) -> bool:
    """Whether allocated devices may have conditions that binding waits for."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")


def _scoring_strategy(strategy: ScoringStrategy) -> Iterator[str]:
    if strategy.type not in SCORING_STRATEGIES:
        yield not_supported("scoringStrategy.type", strategy.type, SCORING_STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            rule = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"scoringStrategy.resources[{i}].weight", resource.weight, rule)
    path, ratio = "scoringStrategy.requestedToCapacityRatio", strategy.requested_to_capacity_ratio
    if strategy.type != "RequestedToCapacityRatio":
        if ratio is not None:
            yield forbidden(path, "must be nil when type is not RequestedToCapacityRatio")
    elif ratio is None:
        yield required(path, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from _function_shape(ratio.shape, f"{path}.shape")


def _function_shape(points: tuple[UtilizationShapePoint, ...], path: str) -> Iterator[str]:
    if not points:
        yield required(path, "at least one point must be specified")
    unsorted = [i for i in range(1, len(points)) if points[i - 1].utilization >= points[i].utilization]
    for i in unsorted[:1]:
        yield invalid(f"{path}[{i}].utilization", points[i].utilization, "values must be sorted in increasing order")
    for i, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{path}[{i}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_CUSTOM_PRIORITY_SCORE:
            yield invalid(f"{path}[{i}].score", point.score, f"not in valid range [0, {MAX_CUSTOM_PRIORITY_SCORE}]")


def _constraint_errors(constraint: TopologySpreadConstraint, path: str) -> Iterator[str]:
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from qualified_name_errors(f"{path}.topologyKey", constraint.topology_key)
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if not constraint.when_unsatisfiable:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif constraint.when_unsatisfiable not in actions:
        yield not_supported(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, actions)
    if constraint.label_selector is not None:
        rule = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", rule)
