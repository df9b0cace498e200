"""Feature gates that scheduling reads, with their default in each minor version and the user's overrides.

Upstream: pkg/features/kube_features.go (v1.36; stages, specs and dependencies of v1.37), component-base/featuregate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from kschedctl.api.kube_version import (
    KUBE_VERSION,
    NEWEST_MINOR,
    OLDEST_MINOR,
    ByVersion,
    KubeVersion,
    MixedVersion,
    VersionMix,
)
from kschedctl.errors import ConfigurationError
from kschedctl.scheduler.framework.unread_gates import UNREAD_GATE_DEPENDENCIES, UNREAD_GATE_STAGES

GATE_STAGES: dict[str, str] = {
    "CSIMigrationPortworx": "1.25 beta, 1.31 beta on, 1.33 GA locked, 1.36 removed",
    "CompositePodGroup": "1.37 alpha",
    "ContainerRestartRules": "1.34 alpha, 1.35 beta on",
    "DRAAdminAccess": "1.32 alpha, 1.34 beta on, 1.36 GA locked",
    "DRAConsumableCapacity": "1.34 alpha, 1.36 beta on",
    "DRADerivedAttributes": "1.37 alpha",
    "DRADeviceBindingConditions": "1.34 alpha, 1.36 beta on",
    "DRADeviceCompatibilityGroups": "1.37 alpha",
    "DRADeviceTaintRules": "1.35 alpha, 1.36 beta, 1.37 GA",
    "DRADeviceTaints": "1.33 alpha, 1.36 beta on, 1.37 GA",
    "DRAExtendedResource": "1.34 alpha, 1.36 beta on, 1.37 GA locked",
    "DRAFractionalCapacityRange": "1.37 beta on",
    "DRAListTypeAttributes": "1.36 alpha",
    "DRANodeAllocatableResources": "1.36 alpha",
    "DRAOptionalNodeOperations": "1.37 alpha",
    "DRAPartitionableDevices": "1.33 alpha, 1.36 beta on",
    "DRAPrioritizedList": "1.33 alpha, 1.34 beta on, 1.36 GA, 1.37 GA locked",
    "DRAResourceClaimDeviceStatus": "1.32 alpha, 1.33 beta on, 1.37 GA locked",
    "DRASchedulerFilterTimeout": "1.34 beta on",
    "DRAWorkloadResourceClaims": "1.36 alpha, 1.37 beta",
    "DynamicResourceAllocation": "1.26 alpha, 1.32 beta, 1.34 GA, 1.35 GA locked",
    "ExtendWebSocketsToKubelet": "1.36 beta on",
    "GangScheduling": "1.35 alpha, 1.37 removed",
    "GenericWorkload": "1.35 alpha, 1.37 beta",
    "InPlacePodLevelResourcesVerticalScaling": "1.35 alpha, 1.36 beta on",
    "InPlacePodVerticalScaling": "1.27 alpha, 1.33 beta on, 1.35 GA locked",
    "InPlacePodVerticalScalingInitContainers": "1.36 beta on, 1.37 GA locked",
    "InPlacePodVerticalScalingSchedulerPreemption": "1.37 alpha",
    "InterPodAffinityHostnameFastPath": "1.37 alpha",
    "MatchLabelKeysInPodAffinity": "1.29 alpha, 1.31 beta on, 1.33 GA locked",
    "MatchLabelKeysInPodTopologySpread": "1.25 alpha, 1.27 beta on",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": "1.34 beta on",
    "NodeDeclaredFeatures": "1.35 alpha, 1.36 beta on, 1.37 GA locked",
    "NodeInclusionPolicyInPodTopologySpread": "1.25 alpha, 1.26 beta on, 1.33 GA locked",
    "NominatedNodeNameForExpectation": "1.34 alpha, 1.35 beta on",
    "OpportunisticBatching": "1.35 beta on",
    "PodGroupPreemptionPolicy": "1.37 alpha",
    "PodLevelResources": "1.32 alpha, 1.34 beta on",
    "PodSchedulingReadiness": "1.26 alpha, 1.27 beta on, 1.30 GA locked",
    "RestartAllContainersOnContainerExits": "1.35 alpha, 1.36 beta on",
    "SchedulerAsyncAPICalls": "1.34 beta",
    "SchedulerAsyncPreemption": "1.32 alpha, 1.33 beta on",
    "SchedulerPopFromBackoffQ": "1.33 beta on",
    "SchedulerPreQueueingHints": "1.37 alpha",
    "SchedulerQueueingHints": "1.28 beta, 1.32 beta on, 1.34 GA locked",
    "SidecarContainers": "1.28 alpha, 1.29 beta on, 1.33 GA locked, 1.37 removed",
    "StorageCapacityScoring": "1.33 alpha, 1.37 beta on",
    "TaintTolerationComparisonOperators": "1.35 alpha",
    "TopologyAwareWorkloadScheduling": "1.36 alpha",
    "UserNamespacesHostNetworkSupport": "1.35 alpha",
    "UserNamespacesSupport": "1.25 alpha, 1.30 beta, 1.33 beta on, 1.36 GA locked",
    "VolumeAttributesClass": "1.29 alpha, 1.31 beta, 1.34 GA, 1.36 GA locked",
    "VolumeCapacityPriority": "1.21 alpha, 1.33 removed",
    "VolumeLimitScaling": "1.35 alpha, 1.37 beta on",
    "WorkloadAwarePreemption": "1.36 alpha, 1.37 removed",
}
"""Gate -> its stages, oldest first: `version stage [on] [locked]`. Alpha is off and GA is on by default; a removed
gate is unknown and keeps its last state.
"""

ALL_GATE_STAGES: Mapping[str, str] = {**GATE_STAGES, **UNREAD_GATE_STAGES}
"""Gate -> its stages, for all gates that a scheduler accepts."""

BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The strings that Go's ParseBool accepts."""

GATE_DEPENDENCIES: dict[str, tuple[str, ...]] = {
    "CompositePodGroup": ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
    "DRAAdminAccess": ("DynamicResourceAllocation",),
    "DRAConsumableCapacity": ("DynamicResourceAllocation",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus", "DynamicResourceAllocation"),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceTaints": ("DynamicResourceAllocation",),
    "DRAExtendedResource": ("DynamicResourceAllocation",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAListTypeAttributes": ("DynamicResourceAllocation",),
    "DRANodeAllocatableResources": ("DynamicResourceAllocation",),
    "DRAOptionalNodeOperations": ("NodeDeclaredFeatures",),
    "DRAPartitionableDevices": ("DynamicResourceAllocation",),
    "DRAPrioritizedList": ("DynamicResourceAllocation",),
    "DRASchedulerFilterTimeout": ("DynamicResourceAllocation",),
    "DRAWorkloadResourceClaims": ("DynamicResourceAllocation", "GenericWorkload"),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "GangScheduling": ("GenericWorkload",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "NodeDeclaredFeatures",
        "PodLevelResources",
    ),
    "InPlacePodVerticalScalingInitContainers": ("InPlacePodVerticalScaling", "NodeDeclaredFeatures"),
    "InPlacePodVerticalScalingSchedulerPreemption": ("InPlacePodVerticalScaling",),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "RestartAllContainersOnContainerExits": ("ContainerRestartRules", "NodeDeclaredFeatures"),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}
"""Gate -> the gates without which it cannot be on."""

CHECKS_DEPENDENCIES = ByVersion(
    "enabling a gate that depends on a disabled gate is an error", (("", False), ("1.35", True))
)
HOST_NETWORK_NEEDS: ByVersion[tuple[str, ...]] = ByVersion(
    "feature gates that UserNamespacesHostNetworkSupport requires",
    (("", ("UserNamespacesSupport",)), ("1.36", ("NodeDeclaredFeatures", "UserNamespacesSupport"))),
)

MERGED_GATES = dict.fromkeys(("GangScheduling", "WorkloadAwarePreemption"), "GenericWorkload")
"""Gate -> the gate that replaces it in versions that removed it (#139520)."""

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)
_GROUP_GATES = {"AllAlpha": "alpha", "AllBeta": "beta"}
"""A gate that sets all gates of one maturity -> this maturity."""


class Stage(NamedTuple):
    """A feature gate in one version."""

    maturity: str
    on: bool
    locked: bool

    @property
    def known(self) -> bool:
        """True if the version recognizes the gate."""
        return self.maturity not in ("pre-alpha", "removed")


_UNKNOWN_YET = Stage("pre-alpha", on=False, locked=False)


class GateFault(NamedTuple):
    """An error that the scheduler reports for an override of a gate."""

    message: str
    unrecognized_gate: str = ""
    """The gate that the scheduler does not recognize, if this is the error."""

    @classmethod
    def from_unrecognized(cls, gate: str) -> GateFault:
        """Build the error for a gate that the scheduler does not recognize."""
        return cls(f"unrecognized feature gate: {gate}", gate)


@dataclass(frozen=True)
class FeatureGates:
    """The feature gates of a scheduler.

    `AllAlpha` and `AllBeta` among the overrides set all gates that are not overridden by name. Raises
    ConfigurationError for a version, gate or value that the scheduler would reject.
    """

    version: str = KUBE_VERSION
    """Version of kube-scheduler, such as "1.36" or "v1.36.2-gke.1"."""
    overrides: Mapping[str, bool] | None = None
    """Gates that were set explicitly."""
    mix: VersionMix | None = None
    """Behavior taken from another version; then overrides are accepted without validation."""

    def __post_init__(self) -> None:
        faults = list(self._validate_overrides()) if self.mix is None else []
        if faults:
            unrecognized_gate = faults[0].unrecognized_gate
            hint = self._find_version_hint(unrecognized_gate) if unrecognized_gate else ""
            raise ConfigurationError("; ".join(fault.message for fault in faults), where="feature gates", hint=hint)

    def _find_version_hint(self, gate: str) -> str:
        """Return a hint about the versions in which an unrecognized gate exists, or "" if no version has it."""
        minors = [minor for minor in MINORS if gate in ALL_GATE_STAGES and get_stage(gate, minor).known]
        if not minors:
            return ""
        if minors[0] > self.minor:
            return f"{gate} needs Kubernetes 1.{minors[0]}"
        return f"{gate} was removed in 1.{minors[-1] + 1}"

    def enabled(self, name: str) -> bool:
        """Return whether a gate is on. Raises KeyError for a name that is not in GATE_STAGES."""
        return self._states[name]

    @cached_property
    def release(self) -> KubeVersion:
        """The version in numbers."""
        version = KubeVersion.parse_supported(self.version)
        return version if self.mix is None else MixedVersion.mix_with(version, self.mix)

    @property
    def minor(self) -> int:
        """The minor version, such as 36 for 1.36."""
        return self.release.minor

    @cached_property
    def _states(self) -> dict[str, bool]:
        """The state of each gate: True if it is on."""
        return self._resolve_gates(GATE_STAGES)

    def _resolve_gates(self, specs: Mapping[str, str]) -> dict[str, bool]:
        """Compute whether each gate in `specs` is on, including all overrides.

        `specs` has the format of GATE_STAGES. AllAlpha and AllBeta take precedence over the defaults, and overrides of
        single gates over AllAlpha and AllBeta. A gate that was merged into another gate has the state of that gate.
        """
        overrides = dict(self.overrides or {})
        state_by_maturity = {
            maturity: overrides[group] for group, maturity in _GROUP_GATES.items() if group in overrides
        }
        gate_overrides = {name: state for name, state in overrides.items() if name not in _GROUP_GATES}
        stages = {}
        for name, spec in specs.items():
            minor = self.release.version_for(f"gate {name}").minor  # versions may be mixed
            stages[name] = find_gate_stage(spec, minor)
        states = {name: state_by_maturity.get(stage.maturity, stage.on) for name, stage in stages.items()}
        states.update(gate_overrides)
        for name, successor in MERGED_GATES.items():
            if name in stages and stages[name].maturity == "removed":
                states[name] = states[successor]
        return states

    def _validate_overrides(self) -> Iterator[GateFault]:
        """Yield the errors that the scheduler reports for the overrides, sorted by gate.

        Newer versions also report each enabled gate that depends on a disabled gate. These errors come last.
        """
        for name, value in sorted((self.overrides or {}).items()):
            if name not in _GROUP_GATES and name not in ALL_GATE_STAGES:
                yield GateFault.from_unrecognized(name)
            elif not isinstance(value, bool):
                yield GateFault(f"invalid value of {name}={value}")
            elif name not in _GROUP_GATES:
                yield from self._validate_gate_value(name, value)
        if CHECKS_DEPENDENCIES.at(self.release) and self.overrides:
            yield from self._validate_dependencies()

    def _validate_dependencies(self) -> Iterator[GateFault]:
        """Yield an error for each enabled gate that depends on disabled gates.

        Dependencies on gates that the version does not have are ignored.
        """
        states = self._resolve_gates(ALL_GATE_STAGES)
        known_gates = {name for name in ALL_GATE_STAGES if get_stage(name, self.minor).known}
        dependencies = {**GATE_DEPENDENCIES, **UNREAD_GATE_DEPENDENCIES}
        dependencies["UserNamespacesHostNetworkSupport"] = HOST_NETWORK_NEEDS.at(self.release)
        for name, required_gates in dependencies.items():
            disabled = [gate for gate in required_gates if gate in known_gates and not states[gate]]
            if states[name] and disabled:
                problem = f"depends on features that are disabled: [{' '.join(disabled)}]"
                yield GateFault(f"{name} is enabled, but {problem}")

    def _validate_gate_value(self, name: str, value: bool) -> Iterator[GateFault]:
        """Yield an error if the version does not have the gate, or has locked it to the other value."""
        stage = get_stage(name, self.minor)
        prefix = f"cannot set feature gate {name} to {str(value).lower()}"
        if not stage.known:
            yield GateFault.from_unrecognized(name)
        elif stage.locked and stage.on != value:
            yield GateFault(f"{prefix}, feature is locked to {str(stage.on).lower()}")


def get_stage(name: str, minor: int) -> Stage:
    """Return the gate's stage in version 1.minor.

    >>> get_stage("DRAAdminAccess", 35)
    Stage(maturity='beta', on=True, locked=False)
    """
    return find_gate_stage(ALL_GATE_STAGES[name], minor)


@lru_cache(maxsize=1024)
def find_gate_stage(stages: str, minor: int) -> Stage:
    """Return the stage of a gate in version 1.minor, given its `stages` in the format of GATE_STAGES.

    Before the first stage, the maturity is `pre-alpha`. A removed gate keeps the value of its last stage.
    """
    current = _UNKNOWN_YET
    for spec in stages.split(", "):
        version, maturity, *flags = spec.split()
        if int(version.removeprefix("1.")) > minor:
            break
        on = maturity == "GA" or "on" in flags
        if maturity == "removed":  # code that still asks for the gate behaves as before
            on = current.on
        current = Stage(maturity, on=on, locked="locked" in flags)
    return current
