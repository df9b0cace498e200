"""The feature gates that scheduling reads: what each one defaults to in each minor version, and what a user set.

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
from kschedctl.scheduler.framework.unread_gates import UNREAD, UNREAD_NEEDS

SPECS: dict[str, str] = {
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
"""Gate -> its stages, oldest first: ``version stage [on] [locked]``. Alpha is off, GA is on; one that was removed is
unknown, and what it was."""

STAGES: Mapping[str, str] = {**SPECS, **UNREAD}
"""Gate -> its stages, of all gates that a scheduler takes."""

BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""What Go's ParseBool takes."""

DEPENDENCIES: dict[str, tuple[str, ...]] = {
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
    "whether a gate is refused that depends on one that is off", (("", False), ("1.35", True))
)
HOST_NETWORK_NEEDS: ByVersion[tuple[str, ...]] = ByVersion(
    "the gates without which UserNamespacesHostNetworkSupport cannot be on",
    (("", ("UserNamespacesSupport",)), ("1.36", ("NodeDeclaredFeatures", "UserNamespacesSupport"))),
)

MERGED = dict.fromkeys(("GangScheduling", "WorkloadAwarePreemption"), "GenericWorkload")
"""Gate -> the one that stands for it in versions that know it no more (#139520)."""

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)
_BROADCASTS = {"AllAlpha": "alpha", "AllBeta": "beta"}


class Stage(NamedTuple):
    """A gate in one version."""

    maturity: str
    on: bool
    locked: bool

    @property
    def known(self) -> bool:
        return self.maturity not in ("pre-alpha", "removed")


_UNKNOWN_YET = Stage("pre-alpha", on=False, locked=False)


@dataclass(frozen=True)
class FeatureGates:
    """The gates of a scheduler of ``version`` ("1.36", "v1.36.2-gke.1") that was started with ``overrides``.

    ``mix``: what is as it is in another version; then the overrides are taken as both versions accept them.

    ``AllAlpha`` and ``AllBeta`` among the overrides set what is not set by name. Raises ConfigurationError for a
    version, gate or value that the scheduler would refuse.
    """

    version: str = KUBE_VERSION
    overrides: Mapping[str, bool] | None = None
    mix: VersionMix | None = None

    def __post_init__(self) -> None:
        faults = list(self._faults()) if self.mix is None else []
        if faults:
            hint = self._hint(faults[0].removeprefix("unrecognized feature gate: "))
            raise ConfigurationError("; ".join(faults), where="feature gates", hint=hint)

    def _hint(self, unknown: str) -> str:
        """Where a gate that is not recognized may be known."""
        if " " in unknown:
            return ""
        known = [minor for minor in MINORS if unknown in STAGES and stage_at(unknown, minor).known]
        if not known:
            return ""
        if known[0] > self.minor:
            return f"{unknown} needs 1.{known[0]}"
        return f"{unknown} is gone since 1.{known[-1] + 1}"

    def enabled(self, name: str) -> bool:
        """Whether the gate is on. A name that is not in SPECS is a KeyError."""
        return self._states[name]

    @cached_property
    def release(self) -> KubeVersion:
        """The version in numbers."""
        version = KubeVersion.parse_supported(self.version)
        return version if self.mix is None else MixedVersion.mix_with(version, self.mix)

    @property
    def minor(self) -> int:
        """36 for 1.36."""
        return self.release.minor

    @cached_property
    def _states(self) -> dict[str, bool]:
        return self._of(SPECS)

    def _of(self, specs: Mapping[str, str]) -> dict[str, bool]:
        """Whether each of the gates is on, and each that was set."""
        overrides = dict(self.overrides or {})
        broadcast = {_BROADCASTS[name]: overrides.pop(name) for name in _BROADCASTS if name in overrides}
        stages = {name: stage_of(spec, self.release.version_for(f"gate {name}").minor) for name, spec in specs.items()}
        states = {name: broadcast.get(stage.maturity, stage.on) for name, stage in stages.items()} | overrides
        merged = {name for name in MERGED.keys() & stages.keys() if stages[name].maturity == "removed"}
        return states | {name: states[MERGED[name]] for name in merged}

    def _faults(self) -> Iterator[str]:
        """Why the scheduler would refuse the overrides, in its words."""
        for name, value in sorted((self.overrides or {}).items()):
            if name not in _BROADCASTS and name not in STAGES:
                yield f"unrecognized feature gate: {name}"
            elif not isinstance(value, bool):
                yield f"invalid value of {name}={value}"
            elif name not in _BROADCASTS:
                yield from self._stage_faults(name, value)
        if CHECKS_DEPENDENCIES.at(self.release) and self.overrides:
            yield from self._dependency_faults()

    def _dependency_faults(self) -> Iterator[str]:
        states = self._of(STAGES)
        known = {name for name in STAGES if stage_at(name, self.minor).known}
        host_network = {"UserNamespacesHostNetworkSupport": HOST_NETWORK_NEEDS.at(self.release)}
        for name, needs in {**DEPENDENCIES, **UNREAD_NEEDS, **host_network}.items():
            off = [need for need in needs if need in known and not states[need]]
            if states[name] and off:
                yield f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"

    def _stage_faults(self, name: str, value: bool) -> Iterator[str]:
        stage, wish = stage_at(name, self.minor), f"cannot set feature gate {name} to {str(value).lower()}"
        if not stage.known:
            yield f"unrecognized feature gate: {name}"
        elif stage.locked and stage.on != value:
            yield f"{wish}, feature is locked to {str(stage.on).lower()}"


def stage_at(name: str, minor: int) -> Stage:
    """The gate's stage in version 1.minor.

    >>> stage_at("DRAAdminAccess", 35)
    Stage(maturity='beta', on=True, locked=False)
    """
    return stage_of(STAGES[name], minor)


@lru_cache(maxsize=1024)
def stage_of(stages: str, minor: int) -> Stage:
    """The stage in version 1.minor, of stages in the form of SPECS."""
    current = _UNKNOWN_YET
    for spec in stages.split(", "):
        version, maturity, *flags = spec.split()
        if int(version.removeprefix("1.")) <= minor:
            stays = maturity == "removed" and current.on
            current = Stage(maturity, on=maturity == "GA" or "on" in flags or stays, locked="locked" in flags)
    return current
