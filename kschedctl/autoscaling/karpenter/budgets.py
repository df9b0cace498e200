"""PodDisruptionBudgets as Karpenter reads them, to find pods that cannot be evicted now or ever.

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
    """A cluster's pods and PodDisruptionBudgets at one moment, given in microseconds."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], pods: Iterable[Pod], now: int) -> None:
        self.now = now
        self._pods = pods
        self._budgets = [(budget, selector_from_api(budget.spec.selector)) for budget in budgets]

    def find_blocking_budgets(self, pod: Pod) -> tuple[str, ...]:
        """Return the names of the budgets that forbid evicting the pod now.

        If several budgets select the pod, all of them do.
        """
        return self._find_forbidding_budgets(pod, lambda budget: budget.status.disruptions_allowed == 0)

    def find_unhealthy_pods(self, budget_key: str) -> list[Pod]:
        """Return the unhealthy pods that the budget ``namespace/name`` selects."""
        for budget, selector in self._budgets:
            namespace = budget.metadata.namespace
            if f"{namespace}/{budget.metadata.name}" == budget_key:
                return [
                    pod
                    for pod in self._pods
                    if pod.metadata.namespace == namespace
                    and selector.matches(pod.metadata.labels)
                    and why_unhealthy(pod)
                ]
        return []

    def is_currently_reschedulable(self, pod: Pod) -> bool:
        """Return whether the pod needs a new node when its node is removed, and can ever be evicted."""
        return (
            is_reschedulable(pod)
            and is_disruptable(pod, self.now)
            and not self._find_forbidding_budgets(pod, _is_fully_blocking)
        )

    def _find_forbidding_budgets(self, pod: Pod, forbids: Blocks) -> tuple[str, ...]:
        """Return the budgets that select the pod and forbid its eviction according to ``forbids``.

        If several budgets select the pod, all of them are returned, because the eviction API supports only one.
        """
        if not self._budgets or not is_evictable(pod, self.now):
            return ()
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        matching = [b for b, selects in self._budgets if b.metadata.namespace == namespace and selects.matches(labels)]
        names = tuple(f"{namespace}/{budget.metadata.name}" for budget in matching)
        if len(matching) > 1:
            return names
        return tuple(n for n, b in zip(names, matching, strict=True) if not _allows_unready_pod(b, pod) and forbids(b))


def _allows_unready_pod(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether the budget lets the pod be evicted because it is not ready (AlwaysAllow)."""
    always = budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
    return always and any(
        condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions
    )


def _is_fully_blocking(budget: PodDisruptionBudget) -> bool:
    """Return whether the budget's spec rules out every eviction."""
    spec = budget.spec
    return spec.max_unavailable in (0, "0%") or spec.min_available == "100%"
