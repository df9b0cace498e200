"""Check stages of feature gates (pkg/features/kube_features.go, v1.36) and errors as component-base words them."""

from __future__ import annotations

import pytest

from kschedctl.errors import ConfigurationError
from kschedctl.scheduler.framework.feature_gates import ALL_GATE_STAGES, GATE_DEPENDENCIES, GATE_STAGES, FeatureGates
from kschedctl.scheduler.framework.unread_gates import UNREAD_GATE_DEPENDENCIES, UNREAD_GATE_STAGES


@pytest.mark.parametrize(
    ("gate", "on_since"),
    [
        ("DynamicResourceAllocation", 34),
        ("NodeDeclaredFeatures", 36),
        ("MatchLabelKeysInPodAffinity", 31),
        ("MatchLabelKeysInPodTopologySpread", 30),
        ("MatchLabelKeysInPodTopologySpreadSelectorMerge", 34),
        ("InPlacePodVerticalScaling", 33),
        ("PodLevelResources", 34),
        ("SchedulerQueueingHints", 32),
        ("SidecarContainers", 30),
        ("VolumeAttributesClass", 34),
        ("DRADeviceTaintRules", 99),
        ("StorageCapacityScoring", 99),
        ("TaintTolerationComparisonOperators", 99),
    ],
)
def test_defaults_by_version(gate, on_since):
    for minor in range(30, 37):
        assert FeatureGates(f"1.{minor}").enabled(gate) == (minor >= on_since)


@pytest.mark.parametrize("version", ["1.36", "v1.36", "v1.36.2", "1.36.0-alpha.1", "v1.36.2-gke.100"])
def test_versions(version):
    assert FeatureGates(version).minor == 36


@pytest.mark.parametrize("version", ["1.29", "1.38", "1.360", "2.36", "", "latest", "1.36.2.3", "1.36x"])
def test_unsupported_versions(version):
    with pytest.raises(ConfigurationError, match=r"not supported \(supported: 1.30 to 1.37\)"):
        FeatureGates(version)


def test_overrides():
    gates = FeatureGates(overrides={"StorageCapacityScoring": True, "SchedulerAsyncPreemption": False})
    assert gates.enabled("StorageCapacityScoring")
    assert not gates.enabled("SchedulerAsyncPreemption")
    assert FeatureGates(overrides={"SidecarContainers": True}).enabled("SidecarContainers")


def test_all_alpha_and_all_beta_keep_gates_set_by_name():
    gates = FeatureGates(overrides={"AllAlpha": True, "VolumeLimitScaling": False, "AllBeta": False} | BETA_NEEDED)
    assert gates.enabled("StorageCapacityScoring")
    assert not gates.enabled("VolumeLimitScaling")
    assert not gates.enabled("SchedulerAsyncPreemption")
    assert gates.enabled("SidecarContainers")


BETA_NEEDED = {"NodeDeclaredFeatures": True, "PodLevelResources": True, "APIServerIdentity": True}
"""Alpha gates that AllAlpha sets depend on these."""


@pytest.mark.parametrize(
    ("version", "overrides", "message"),
    [
        ("1.36", {"Nope": True}, "unrecognized feature gate: Nope"),
        (
            "1.36",
            {"SidecarContainers": False},
            "cannot set feature gate SidecarContainers to false, feature is locked to true",
        ),
        (
            "1.34",
            {"NodeDeclaredFeatures": True},
            "unrecognized feature gate: NodeDeclaredFeatures",
        ),
        (
            "1.36",
            {"GangScheduling": True},
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        ("1.35", {"MemoryManager": False}, "cannot set feature gate MemoryManager to false, feature is locked to true"),
        ("1.36", {"MemoryManager": True}, "unrecognized feature gate: MemoryManager"),
        ("1.36", {"ImageVolume": False}, "cannot set feature gate ImageVolume to false, feature is locked to true"),
        (
            "1.36",
            {"DRAResourceClaimDeviceStatus": False, "DRADeviceBindingConditions": False},
            "DRAResourceClaimGranularStatusAuthorization is enabled, but depends on features that are disabled: "
            "[DRAResourceClaimDeviceStatus]",
        ),
        (
            "1.35",
            {"DeclarativeValidation": False, "DeclarativeValidationTakeover": True},
            "DeclarativeValidationTakeover is enabled, but depends on features that are disabled: "
            "[DeclarativeValidation]",
        ),
        ("1.36", {"AllBeta": "true"}, "invalid value of AllBeta=true"),
        ("1.36", {"PodLevelResources": "false"}, "invalid value of PodLevelResources=false"),
    ],
)
def test_invalid_settings(version, overrides, message):
    with pytest.raises(ConfigurationError) as caught:
        FeatureGates(version, overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("version", "overrides"),
    [
        ("1.36", {"ImageVolume": True, "MutableCSINodeAllocatableCount": True, "WatchListClient": False}),
        ("1.36", {"ContextualLogging": False, "LoggingAlphaOptions": True, "ComponentFlagz": True}),
        ("1.35", {"ImageVolume": False, "MemoryManager": True, "WindowsCPUAndMemoryAffinity": True}),
        ("1.30", {"CloudDualStackNodeIPs": True, "InformerResourceVersion": True}),
    ],
)
def test_gates_of_other_components_are_accepted(version, overrides):
    """The gates are from pkg/features/kube_features.go, client-go/features and component-base of these versions."""
    assert FeatureGates(version, overrides).enabled("PodLevelResources") == (version != "1.30")


def test_no_gate_is_in_both_tables():
    assert not GATE_STAGES.keys() & UNREAD_GATE_STAGES.keys()


def test_dependencies_are_known_gates():
    assert {
        gate for needs in GATE_DEPENDENCIES.values() for gate in needs
    } | GATE_DEPENDENCIES.keys() <= GATE_STAGES.keys()
    assert {gate for needs in UNREAD_GATE_DEPENDENCIES.values() for gate in needs} <= ALL_GATE_STAGES.keys()
    assert UNREAD_GATE_DEPENDENCIES.keys() <= UNREAD_GATE_STAGES.keys()


def test_reading_an_unknown_gate_is_a_bug():
    with pytest.raises(KeyError):
        FeatureGates().enabled("Nope")


def test_gate_of_a_later_version_is_named_as_such():
    with pytest.raises(ConfigurationError) as caught:
        FeatureGates("1.34", {"NodeDeclaredFeatures": False})
    assert caught.value.hint == "NodeDeclaredFeatures needs Kubernetes 1.35"
