"""What kube-scheduler refuses in the arguments of plugins.

Upstream: pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36); every function here is one of there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kschedctl.api.node_selector import NodeSelectorError, compile_node_selector, compile_preferred_terms
from kschedctl.api.objects import NodeAffinity, TopologySpreadConstraint
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.configuration.field_errors import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    qualified_name_errors,
    required,
)
from kschedctl.scheduler.configuration.plugin_args import (
    MAX_CUSTOM_PRIORITY_SCORE,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
    waits_for_binding,
)

SCORING_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def args_errors(args: object, gates: FeatureGates) -> list[str]:
    """What kube-scheduler refuses in defaulted arguments; the paths are relative to them."""
    validate = _VALIDATIONS.get(type(args))
    return list(validate(args, gates)) if validate else []


def _default_preemption(args: DefaultPreemptionArgs, _: FeatureGates) -> Iterator[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if not 0 <= percentage <= 100:
        yield invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        both = "cannot be zero at the same time as"
        yield invalid("minCandidateNodesPercentage", percentage, f"{both} minCandidateNodesAbsolute")
        yield invalid("minCandidateNodesAbsolute", absolute, f"{both} minCandidateNodesPercentage")


def _dynamic_resources(args: DynamicResourcesArgs, gates: FeatureGates) -> Iterator[str]:
    if args.filter_timeout is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            yield forbidden("filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")
        elif args.filter_timeout < 0:
            yield invalid("filterTimeout", f"{args.filter_timeout:g}s", "must be zero or positive")
    if args.binding_timeout is not None:
        if not waits_for_binding(gates):
            both = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"
            yield forbidden("bindingTimeout", f"{both} feature gate is disabled")
        elif args.binding_timeout < 1:
            yield invalid("bindingTimeout", f"{args.binding_timeout:g}s", "must be at least 1 second")


def _inter_pod_affinity(args: InterPodAffinityArgs, _: FeatureGates) -> Iterator[str]:
    if not 0 <= args.hard_pod_affinity_weight <= 100:
        yield invalid("hardPodAffinityWeight", args.hard_pod_affinity_weight, "not in valid range [0, 100]")


def _node_affinity(args: NodeAffinityArgs, _: FeatureGates) -> Iterator[str]:
    affinity, path = args.added_affinity or NodeAffinity(), "addedAffinity"
    if required_terms := affinity.required_during_scheduling_ignored_during_execution:
        at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
        for term in compile_node_selector(required_terms, at).terms:
            yield from term.errors
    at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    try:
        compile_preferred_terms(affinity.preferred_during_scheduling_ignored_during_execution, at)
    except NodeSelectorError as error:
        yield error.what


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, _: FeatureGates) -> Iterator[str]:
    seen = set()
    for i, resource in enumerate(args.resources):
        if resource.name in seen:
            yield duplicate(f"resources[{i}].name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(f"resources[{i}].weight", resource.weight, "must be 1")


def _node_resources_fit(args: NodeResourcesFitArgs, _: FeatureGates) -> Iterator[str]:
    for i, name in enumerate(args.ignored_resources):
        yield from qualified_name_errors(f"ignoredResources[{i}]", name)
    for i, group in enumerate(args.ignored_resource_groups):
        if "/" in group:
            yield invalid(f"ignoredResourceGroups[{i}]", group, "resource group name can't contain '/'")
        yield from qualified_name_errors(f"ignoredResourceGroups[{i}]", group)
    yield from _scoring_strategy(args.scoring_strategy)


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


def _pod_topology_spread(args: PodTopologySpreadArgs, _: FeatureGates) -> Iterator[str]:
    if args.defaulting_type not in ("System", "List"):
        yield not_supported("defaultingType", args.defaulting_type, ("System", "List"))
    elif args.defaulting_type == "System" and args.default_constraints:
        yield invalid("defaultingType", args.defaulting_type, "when .defaultConstraints are not empty")
    seen = set()
    for i, constraint in enumerate(args.default_constraints):
        yield from _constraint_errors(constraint, f"defaultConstraints[{i}]")
        identity = (constraint.topology_key, constraint.when_unsatisfiable)
        if identity in seen:
            yield duplicate(f"defaultConstraints[{i}]", f"{{{', '.join(identity)}}}")
        seen.add(identity)


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


def _volume_binding(args: VolumeBindingArgs, gates: FeatureGates) -> Iterator[str]:
    if args.bind_timeout_seconds < 0:
        rule = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid("bindTimeoutSeconds", args.bind_timeout_seconds, rule)
    if gates.enabled("StorageCapacityScoring"):
        yield from _function_shape(args.shape or (), "shape")
    elif args.shape is not None:
        rule = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid("shape", args.shape, rule)


_VALIDATIONS: dict[type, Callable[[Any, FeatureGates], Iterator[str]]] = {
    DefaultPreemptionArgs: _default_preemption,
    DynamicResourcesArgs: _dynamic_resources,
    InterPodAffinityArgs: _inter_pod_affinity,
    NodeAffinityArgs: _node_affinity,
    NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    NodeResourcesFitArgs: _node_resources_fit,
    PodTopologySpreadArgs: _pod_topology_spread,
    VolumeBindingArgs: _volume_binding,
}
