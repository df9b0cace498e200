"""Arguments of VolumeBinding.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from msgspec.structs import replace

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import invalid
from kschedctl.scheduler.framework.strict_decoding import Int64
from kschedctl.scheduler.plugins.helper.shape import MAX_CUSTOM_PRIORITY_SCORE, UtilizationShapePoint, validate_shape

CAPACITY_SCORING_GATE = ByVersion(
    "the gate with which VolumeBinding scores by storage capacity",
    (("", "VolumeCapacityPriority"), ("1.33", "StorageCapacityScoring")),
    "#128184",
)
DEFAULT_CAPACITY_SCORES = ByVersion(
    "the scores of storage that is empty and of full one, unless arguments say otherwise",
    (("", (0, MAX_CUSTOM_PRIORITY_SCORE)), ("1.33", (MAX_CUSTOM_PRIORITY_SCORE, 0))),
    "#128184",
)


class VolumeBindingArgs(PluginArgs, frozen=True):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: Int64 = 600
    """The time in which the volumes of a pod must be bound."""
    shape: tuple[UtilizationShapePoint, ...] | None = None
    """The scores of utilizations of storage capacity, or None if capacity is not scored."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments with the default shape, if the gate is on and no shape is set."""
        if self.shape or not gates.enabled(CAPACITY_SCORING_GATE.at(gates.release)):
            return self
        empty, full = DEFAULT_CAPACITY_SCORES.at(gates.release)
        return replace(self, shape=(UtilizationShapePoint(0, empty), UtilizationShapePoint(100, full)))

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the validation errors of the arguments."""
        if self.bind_timeout_seconds < 0:
            rule = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid("bindTimeoutSeconds", self.bind_timeout_seconds, rule)
        gate = CAPACITY_SCORING_GATE.at(gates.release)
        if gates.enabled(gate):
            yield from validate_shape(self.shape or (), "shape")
        elif self.shape is not None:
            rule = f"unexpected field `shape`, remove it or turn on the feature gate {gate}"
            yield invalid("shape", self.shape, rule)
