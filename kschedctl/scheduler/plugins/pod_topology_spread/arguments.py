"""Arguments of PodTopologySpread.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from msgspec.structs import replace

from kschedctl.api.objects import TopologySpreadConstraint
from kschedctl.scheduler.framework.arguments import Naming, PluginArgs
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    validate_qualified_name,
)


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Default constraints for pods that have none of their own."""

    naming: ClassVar[Mapping[str, Naming]] = {"topologyKey": "key"}
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"
    """"List" for `default_constraints`, "System" for the scheduler's own."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        return replace(self, defaulting_type=self.defaulting_type or "System")

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the validation errors of the arguments."""
        if self.defaulting_type not in ("System", "List"):
            yield not_supported("defaultingType", self.defaulting_type, ("System", "List"))
        elif self.defaulting_type == "System" and self.default_constraints:
            yield invalid("defaultingType", self.defaulting_type, "when .defaultConstraints are not empty")
        seen = set()
        for i, constraint in enumerate(self.default_constraints):
            yield from _validate_constraint(constraint, f"defaultConstraints[{i}]")
            identity = (constraint.topology_key, constraint.when_unsatisfiable)
            if identity in seen:
                yield duplicate(f"defaultConstraints[{i}]", f"{{{', '.join(identity)}}}")
            seen.add(identity)


def _validate_constraint(constraint: TopologySpreadConstraint, path: str) -> Iterator[str]:
    """Yield the validation errors of a default constraint."""
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from validate_qualified_name(f"{path}.topologyKey", constraint.topology_key)
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if not constraint.when_unsatisfiable:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif constraint.when_unsatisfiable not in actions:
        yield not_supported(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, actions)
    if constraint.label_selector is not None:
        rule = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", rule)
