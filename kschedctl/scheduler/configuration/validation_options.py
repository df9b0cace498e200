"""The feature gates that the validation of pods asks for, as a version has them.

Upstream: GetValidationOptionsFromPodSpecAndMeta in pkg/api/pod/util.go (v1.36).
"""

from __future__ import annotations

from kschedctl.api.validation.options import ValidationOptions
from kschedctl.scheduler.framework.feature_gates import FeatureGates


def validation_options(gates: FeatureGates) -> ValidationOptions:
    """What a version with these gates lets through in objects."""
    return ValidationOptions(
        comparison_operators=gates.enabled("TaintTolerationComparisonOperators"),
        selector_merge=gates.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge"),
        pod_level_resources=gates.enabled("PodLevelResources"),
        container_restart_rules=gates.enabled("ContainerRestartRules"),
        user_namespaces_host_network=gates.enabled("UserNamespacesHostNetworkSupport"),
    )
