"""The remaining disruptions of PodDisruptionBudgets.

Upstream: core/scaledown/pdb/basic.go (1.36). Pods that are to move use up a budget, whatever becomes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kschedctl.api.labels import Selector, selector_from_api
from kschedctl.api.objects import Pod, PodDisruptionBudget


class RemainingBudgets:
    """PodDisruptionBudgets in list order with their remaining disruptions."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: list[tuple[str, Selector]] = []
        self.left: list[int] = []
        for budget in budgets:
            self._budgets.append((budget.metadata.namespace, selector_from_api(budget.spec.selector)))
            self.left.append(budget.status.disruptions_allowed)

    def find_budgets(self, pod: Pod) -> list[int]:
        """Return the indexes of the budgets that select a pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return [at for at, (of, selects) in enumerate(self._budgets) if of == namespace and selects.matches(labels)]

    def forbids(self, pod: Pod) -> bool:
        """Return whether one of the pod's budgets is used up."""
        return any(self.left[at] < 1 for at in self.find_budgets(pod))

    def allow_at_once(self, pods: Sequence[Pod]) -> bool:
        """Return whether all these pods may go at the same time."""
        counts = [0] * len(self.left)
        for pod in pods:
            for at in self.find_budgets(pod):
                counts[at] += 1
        return all(count <= left for count, left in zip(counts, self.left, strict=True) if count)

    def count_evictions(self, pods: Iterable[Pod]) -> None:
        """Count pods that go."""
        for pod in pods:
            for at in self.find_budgets(pod):
                self.left[at] -= 1
