"""The arguments of NodeResourcesFit.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from msgspec.structs import replace

from kschedctl.scheduler.framework.arguments import Naming, PluginArgs
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import (
    forbidden,
    invalid,
    not_supported,
    required,
    validate_qualified_name,
)
from kschedctl.scheduler.plugins.helper.scoring_strategy import DEFAULT_RESOURCES, ScoringStrategy, with_weights
from kschedctl.scheduler.plugins.helper.shape import validate_shape

SCORING_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourcesFit: extended resources that Filter ignores, and the scoring strategy."""

    naming: ClassVar[Mapping[str, Naming]] = {
        "name": "resource",
        "ignoredResources": "resource",
        "ignoredResourceGroups": "domain",
    }
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    """Groups of ignored resources, by the part of their names before the slash."""
    scoring_strategy: ScoringStrategy = ScoringStrategy("LeastAllocated", DEFAULT_RESOURCES)

    def with_defaults(self, gates: FeatureGates) -> Self:
        strategy = self.scoring_strategy
        return replace(self, scoring_strategy=replace(strategy, resources=with_weights(strategy.resources)))

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the validation errors of the arguments."""
        for i, name in enumerate(self.ignored_resources):
            yield from validate_qualified_name(f"ignoredResources[{i}]", name)
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield invalid(f"ignoredResourceGroups[{i}]", group, "resource group name can't contain '/'")
            yield from validate_qualified_name(f"ignoredResourceGroups[{i}]", group)
        yield from _validate_scoring_strategy(self.scoring_strategy)


def _validate_scoring_strategy(strategy: ScoringStrategy) -> Iterator[str]:
    """Yield the validation errors of the scoring strategy."""
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
        yield from validate_shape(ratio.shape, f"{path}.shape")
