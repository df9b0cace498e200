"""Options for the validation of pods, from a version's feature gates.

Upstream: GetValidationOptionsFromPodSpecAndMeta in pkg/api/pod/util.go (v1.36).
"""

from __future__ import annotations

from kschedctl.api.validation.options import ValidationOptions
from kschedctl.scheduler.framework.feature_gates import FeatureGates


def build_validation_options(gates: FeatureGates) -> ValidationOptions:
    """Build the options that a version with these gates uses."""
    return ValidationOptions(
        comparison_operators=gates.enabled("TaintTolerationComparisonOperators"),
        selector_merge=gates.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge"),
        pod_level_resources=gates.enabled("PodLevelResources"),
        container_restart_rules=gates.enabled("ContainerRestartRules"),
        user_namespaces_host_network=gates.enabled("UserNamespacesHostNetworkSupport"),
    )
