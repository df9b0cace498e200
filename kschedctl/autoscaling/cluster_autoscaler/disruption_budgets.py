"""The disruptions that PodDisruptionBudgets still allow.

Upstream: core/scaledown/pdb/basic.go (1.36). Pods that are planned to move use up their budgets, even if they stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kschedctl.api.labels import Selector, selector_from_api
from kschedctl.api.objects import Pod, PodDisruptionBudget


class RemainingBudgets:
    """PodDisruptionBudgets in list order, with the number of disruptions that each still allows."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: list[tuple[str, Selector]] = []
        self.remaining: list[int] = []
        for budget in budgets:
            self._budgets.append((budget.metadata.namespace, selector_from_api(budget.spec.selector)))
            self.remaining.append(budget.status.disruptions_allowed)

    def find_budgets(self, pod: Pod) -> list[int]:
        """Return the indexes of the budgets that select the pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return [
            index
            for index, (budget_namespace, selects) in enumerate(self._budgets)
            if budget_namespace == namespace and selects.matches(labels)
        ]

    def forbids_eviction(self, pod: Pod) -> bool:
        """Return whether one of the pod's budgets is used up."""
        return any(self.remaining[at] < 1 for at in self.find_budgets(pod))

    def allow_simultaneous_eviction(self, pods: Sequence[Pod]) -> bool:
        """Return whether the budgets allow evicting all these pods at the same time."""
        counts = [0] * len(self.remaining)
        for pod in pods:
            for at in self.find_budgets(pod):
                counts[at] += 1
        return all(count <= left for count, left in zip(counts, self.remaining, strict=True) if count)

    def count_evictions(self, pods: Iterable[Pod]) -> None:
        """Charge the eviction of these pods to their budgets."""
        for pod in pods:
            for at in self.find_budgets(pod):
                self.remaining[at] -= 1
