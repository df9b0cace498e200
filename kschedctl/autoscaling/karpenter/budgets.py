"""PodDisruptionBudgets as Karpenter reads them: pods that cannot be evicted now or ever.

Upstream: pkg/utils/pdb/pdb.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kschedctl.api.labels import selector_from_api
from kschedctl.api.objects import Pod, PodDisruptionBudget
from kschedctl.api.unhealthy_pods import why_unhealthy
from kschedctl.autoscaling.karpenter.pods import is_disruptable, is_evictable, is_reschedulable

Blocks = Callable[[PodDisruptionBudget], bool]


class EvictionLimits:
    """The PodDisruptionBudgets of a cluster with its pods, at one moment (microseconds)."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], pods: Iterable[Pod], now: int) -> None:
        self.now = now
        self._pods = pods
        self._budgets = [(budget, selector_from_api(budget.spec.selector)) for budget in budgets]

    def find_blocking_budgets(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets that forbid evicting the pod now: one, or all if several select the pod."""
        return self._find_forbidding_budgets(pod, lambda budget: budget.status.disruptions_allowed == 0)

    def unhealthy_pods(self, name: str) -> list[Pod]:
        """Return the pods that a budget, as ``namespace/name``, selects and does not count as healthy."""
        return next(
            (
                [
                    pod
                    for pod in self._pods
                    if pod.metadata.namespace == budget.metadata.namespace
                    and selector.matches(pod.metadata.labels)
                    and why_unhealthy(pod)
                ]
                for budget, selector in self._budgets
                if f"{budget.metadata.namespace}/{budget.metadata.name}" == name
            ),
            [],
        )

    def is_currently_reschedulable(self, pod: Pod) -> bool:
        """Return whether the pod must be rescheduled when its node goes, and can be evicted at all."""
        return (
            is_reschedulable(pod)
            and is_disruptable(pod, self.now)
            and not self._find_forbidding_budgets(pod, _is_fully_blocking)
        )

    def _find_forbidding_budgets(self, pod: Pod, blocks: Blocks) -> tuple[str, ...]:
        """Return the matching budgets that forbid eviction according to ``blocks``, or all if several match."""
        if not self._budgets or not is_evictable(pod, self.now):
            return ()
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        matching = [b for b, selects in self._budgets if b.metadata.namespace == namespace and selects.matches(labels)]
        names = tuple(f"{namespace}/{budget.metadata.name}" for budget in matching)
        if len(matching) > 1:
            return names
        return tuple(n for n, b in zip(names, matching, strict=True) if not _allows_unready_pod(b, pod) and blocks(b))


def _allows_unready_pod(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether the budget lets the pod be evicted because it is not ready (AlwaysAllow)."""
    always = budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
    return always and any(
        condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions
    )


def _is_fully_blocking(budget: PodDisruptionBudget) -> bool:
    """Return whether the budget never allows an eviction, by its spec."""
    spec = budget.spec
    return spec.max_unavailable in (0, "0%") or spec.min_available == "100%"
