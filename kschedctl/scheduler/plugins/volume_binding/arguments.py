"""The arguments of VolumeBinding.

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

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        if self.bind_timeout_seconds < 0:
            rule = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid("bindTimeoutSeconds", self.bind_timeout_seconds, rule)
        gate = CAPACITY_GATE.at(gates.release)
        if gates.enabled(gate):
            yield from validate_shape(self.shape or (), "shape")
        elif self.shape is not None:
            rule = f"unexpected field `shape`, remove it or turn on the feature gate {gate}"
            yield invalid("shape", self.shape, rule)
