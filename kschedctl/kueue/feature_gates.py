"""Kueue's feature gates that change an admission, with their defaults by release.

Upstream: pkg/features/kube_features.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kschedctl.api.queueing import KueueRelease
from kschedctl.errors import InputError


class Gate(StrEnum):
    """A feature gate, by its name upstream."""

    FAIR_SHARING_PREEMPT_WITHIN_NOMINAL = "FairSharingPreemptWithinNominal"
    FAIR_SHARING_PRIORITIZE_NON_BORROWING = "FairSharingPrioritizeNonBorrowing"
    FINISH_ORPHANED_WORKLOADS = "FinishOrphanedWorkloads"
    FLAVOR_FUNGIBILITY = "FlavorFungibility"
    FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS = "FlavorFungibilityPreserveScanProgress"
    PARTIAL_ADMISSION = "PartialAdmission"
    PRIORITIZE_PREEMPTOR_WORKLOADS = "PrioritizePreemptorWorkloads"
    PRIORITY_SORTING_WITHIN_COHORT = "PrioritySortingWithinCohort"
    QUOTA_CHECK_STRATEGY = "QuotaCheckStrategy"
    RECLAIMABLE_PODS = "ReclaimablePods"
    RECOMPUTE_UPON_TARGETS_OVERLAP = "RecomputeAssignmentUponPreemptionTargetsOverlap"
    SCHEDULING_EQUIVALENCE_HASHING = "SchedulingEquivalenceHashing"
    TAS_BALANCED_PLACEMENT = "TASBalancedPlacement"
    TAS_HANDLE_OVERLAPPING_FLAVORS = "TASHandleOverlappingFlavors"
    TAS_MULTI_LAYER_TOPOLOGY = "TASMultiLayerTopology"
    TAS_PROFILE_MIXED = "TASProfileMixed"
    TAS_RECOMPUTE_ASSIGNMENT = "TASRecomputeAssignmentWithinSchedulingCycle"
    TAS_RESPECT_PREFERRED_AFFINITY = "TASRespectNodeAffinityPreferred"
    TOPOLOGY_AWARE_SCHEDULING = "TopologyAwareScheduling"
    UNADMITTED_EXPLICIT_STATUS = "UnadmittedWorkloadsExplicitStatus"
    UNADMITTED_OBSERVABILITY = "UnadmittedWorkloadsObservability"
    WORKLOAD_PRIORITY_CLASS_DEFAULTING = "WorkloadPriorityClassDefaulting"


_GATES = {gate.value: gate for gate in Gate}
_OFF_BY_DEFAULT = frozenset(
    {
        Gate.PRIORITIZE_PREEMPTOR_WORKLOADS,
        Gate.TAS_BALANCED_PLACEMENT,
        Gate.TAS_RESPECT_PREFERRED_AFFINITY,
        Gate.UNADMITTED_EXPLICIT_STATUS,
    }
)
_OFF_IN_0_19 = frozenset(
    {
        Gate.RECOMPUTE_UPON_TARGETS_OVERLAP,
        Gate.UNADMITTED_OBSERVABILITY,
        Gate.WORKLOAD_PRIORITY_CLASS_DEFAULTING,
    }
)

FeatureGates = frozenset[Gate]
"""The gates that are enabled."""


def build_feature_gates(release: KueueRelease, overrides: Mapping[str, object]) -> FeatureGates:
    """Return the enabled gates: a release's defaults, changed by ``overrides`` from Kueue's configuration.

    Overrides of gates that are not in ``Gate`` are ignored. Raises InputError for a value that is not a boolean.
    """
    off = _OFF_BY_DEFAULT | (_OFF_IN_0_19 if release == KueueRelease.V0_19 else frozenset())
    enabled = {gate for gate in Gate if gate not in off}
    for name, value in overrides.items():
        if not isinstance(value, bool):
            raise InputError(f"feature gate {name} of Kueue must be true or false, got {value!r}")
        gate = _GATES.get(name)
        if gate is None:
            continue
        if value:
            enabled.add(gate)
        else:
            enabled.discard(gate)
    return frozenset(enabled)
