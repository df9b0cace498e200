"""Differences between Karpenter's and kube-scheduler's treatment of a pod."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.requirements import get_required_terms
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting


def iter_differences(setting: KarpenterSetting, pod: Pod) -> Iterator[str]:
    """Yield the differences that affect this pod, in the order in which Karpenter relaxes preferences."""
    if node := pod.status.nominated_node_name:
        yield f"Karpenter does not look at the pod as long as kube-scheduler nominates {node} for it"
    terms = len(get_required_terms(pod))
    if terms > 1:
        yield f"Karpenter tries the {terms} required node affinity terms one at a time, in the order written"
    if preferences := list(_iter_preferences(pod)):
        listed = ", ".join(preferences)
        if setting.options.ignores_preferences:
            yield f"Karpenter ignores {listed}: preferencePolicy is Ignore"
        else:
            yield f"Karpenter takes {listed} for required first, and gives up wish by wish when no pool takes the pod"
    if taints := sorted(_find_untolerated_soft_taints(setting, pod)):
        yield f"to Karpenter {', '.join(taints)} is as hard as NoSchedule until all other preferences are given up"
    if any(constraint.min_domains is not None for constraint in pod.spec.topology_spread_constraints):
        yield "Karpenter takes minDomains from the first pod that it sees with the same spread constraint"


def _iter_preferences(pod: Pod) -> Iterator[str]:
    """Yield a description of each kind of preference that the pod has."""
    affinity = pod.spec.affinity
    attracting = affinity and affinity.pod_affinity
    if attracting and attracting.preferred_during_scheduling_ignored_during_execution:
        yield "preferred pod affinity"
    repelling = affinity and affinity.pod_anti_affinity
    if repelling and repelling.preferred_during_scheduling_ignored_during_execution:
        yield "preferred pod anti-affinity"
    node_affinity = affinity and affinity.node_affinity
    if node_affinity and (preferred := node_affinity.preferred_during_scheduling_ignored_during_execution):
        heaviest = "the heaviest preferred node affinity term" if len(preferred) > 1 else "preferred node affinity"
        yield heaviest
    if any(constraint.when_unsatisfiable == "ScheduleAnyway" for constraint in pod.spec.topology_spread_constraints):
        yield "ScheduleAnyway spread constraints"


def _find_untolerated_soft_taints(setting: KarpenterSetting, pod: Pod) -> set[str]:
    """Return the pools' PreferNoSchedule taints that the pod does not tolerate."""
    taints = {taint for pool in setting.pools.pools for taint in pool.spec.template.spec.taints}
    return {
        str(taint)
        for taint in taints
        if taint.effect == "PreferNoSchedule"
        and not is_tolerated(pod.spec.tolerations, taint, comparison_operators=True)
    }
