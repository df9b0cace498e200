"""PodDisruptionBudgets while pods are evicted and come back: how many disruptions each still allows.

Upstream: pkg/controller/disruption (v1.36): what is allowed is by how much the healthy pods exceed those desired.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kschedctl.api.objects import PodDisruptionBudget
from kschedctl.scheduler.preemption.dry_run import budgets_of
from kschedctl.snapshot.fork import Fork


class Budgets:
    """The budgets of a fork, kept in its cluster. By ``namespace/name``."""

    def __init__(self, view: Fork) -> None:
        self.view = view
        self._spare = {key_of(pdb): spare(pdb) for pdb in view.cluster.pod_disruption_budgets}

    def of(self, position: int) -> tuple[str, ...]:
        """The budgets that select a pod."""
        return budgets_of(self.view, position) if self._spare else ()

    def allowed(self, budget: str) -> int:
        return max(self._spare[budget], 0)

    def gone(self, positions: Iterable[int]) -> None:
        """These pods were evicted."""
        self._change(positions, -1)

    def back(self, positions: Iterable[int]) -> None:
        """These pods run again."""
        self._change(positions, 1)

    def _change(self, positions: Iterable[int], by: int) -> None:
        changed = {budget for position in positions for budget in self._count(position, by)}
        if changed:
            budgets = self.view.cluster.pod_disruption_budgets
            found = [self._written(pdb) for pdb in budgets if key_of(pdb) in changed]
            self.view.objects.replace({"PodDisruptionBudget": found})

    def _count(self, position: int, by: int) -> tuple[str, ...]:
        budgets = self.of(position)
        for budget in budgets:
            self._spare[budget] += by
        return budgets

    def _written(self, pdb: PodDisruptionBudget) -> PodDisruptionBudget:
        return replace(pdb, status=replace(pdb.status, disruptions_allowed=self.allowed(key_of(pdb))))


def key_of(pdb: PodDisruptionBudget) -> str:
    """``namespace/name``."""
    return f"{pdb.metadata.namespace}/{pdb.metadata.name}"


def spare(pdb: PodDisruptionBudget) -> int:
    """By how many the healthy pods exceed those that the budget needs; negative when there are too few."""
    status = pdb.status
    return max(status.disruptions_allowed, 0) or min(status.current_healthy - status.desired_healthy, 0)
