"""The statuses of PodDisruptionBudgets after pods lost their nodes, got nodes, or were added or removed.

Upstream: pkg/controller/disruption/disruption.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import Pod, PodDisruptionBudget, PodDisruptionBudgetStatus
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.eviction import compute_desired_healthy, has_status, is_healthy
from kschedctl.replay.edits import select_pods
from kschedctl.scheduler.engine.preemption.budgets import (
    get_budget_key,
    get_disruption_headroom,
    parse_budget_selector,
)


class _ChangedPod(NamedTuple):
    """A pod that has another node than before, or that exists only before or after the change."""

    before: Pod | None
    after: Pod | None

    @property
    def pod(self) -> Pod:
        """The pod after the change or, if it is gone, before it."""
        pod = self.after or self.before
        assert pod is not None
        return pod

    @property
    def healthy_difference(self) -> int:
        """1 if the pod became healthy, -1 if it no longer is, and 0 otherwise."""
        was_healthy = self.before is not None and is_healthy(self.before)
        return (self.after is not None and is_healthy(self.after)) - was_healthy


def with_current_budget_statuses(cluster: Cluster, before: Cluster, *, is_scaled: bool = False) -> Cluster:
    """Return the cluster with budgets whose statuses take account of the pods that changed since `before`.

    The statuses in `before` have to be up to date, and those in `cluster` are ignored. A pod that got a node counts as
    healthy, as it does between the evictions of a drain. The number of pods that a budget expects changes only with
    `is_scaled`, since controllers still want the pods that have no node. Budgets that are new or have another spec are
    left as they are.
    """
    old_budgets = {get_budget_key(budget): budget for budget in before.pod_disruption_budgets}
    budgets = [
        budget
        for budget in cluster.pod_disruption_budgets
        if get_budget_key(budget) in old_budgets and old_budgets[get_budget_key(budget)].spec == budget.spec
    ]
    if not budgets:
        return cluster

    changed_pods = _find_changed_pods(before, cluster)
    updated_budgets = []
    for budget in budgets:
        old_budget = old_budgets[get_budget_key(budget)]
        selects_pod = _build_pod_filter(budget)
        healthy_difference = sum(
            changed_pod.healthy_difference for changed_pod in changed_pods if selects_pod(changed_pod.pod)
        )
        desired_difference = 0
        if is_scaled:
            desired_difference = compute_desired_healthy(budget, len(select_pods(cluster, selects_pod)))
            desired_difference -= compute_desired_healthy(budget, len(select_pods(before, selects_pod)))
        status = _build_budget_status(old_budget, healthy_difference, desired_difference)
        updated_budgets.append(replace(budget, status=status))
    return cluster.with_objects({"PodDisruptionBudget": updated_budgets})


def _find_changed_pods(before: Cluster, after: Cluster) -> Sequence[_ChangedPod]:
    """Return the pods that have another node than before, or that exist only before or after."""
    if before.pods is after.pods:
        return []
    old_nodes = set(zip(before.pods.list_keys(), before.pods.node.texts(), strict=True))
    new_nodes = set(zip(after.pods.list_keys(), after.pods.node.texts(), strict=True))
    changed_keys = {key for key, _ in old_nodes ^ new_nodes}
    return [_ChangedPod(before.pods.find(*key), after.pods.find(*key)) for key in changed_keys]


def _build_pod_filter(budget: PodDisruptionBudget) -> Callable[[Pod], bool]:
    """Build a function that returns whether the budget selects a pod."""
    namespace = budget.metadata.namespace
    selector = parse_budget_selector(budget.spec)
    return lambda pod: pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels)


def _build_budget_status(
    budget: PodDisruptionBudget, healthy_difference: int, desired_difference: int
) -> PodDisruptionBudgetStatus:
    """Build the status of a budget whose numbers of healthy pods and of desired healthy pods changed.

    A budget without a status gets none. The status stays as it is if it allows no disruption although enough pods are
    healthy, because this means that the disruption controller failed to compute it.
    """
    status = budget.status
    is_failed = status.disruptions_allowed == 0 and status.current_healthy > status.desired_healthy
    if not has_status(budget) or is_failed or not (healthy_difference or desired_difference):
        return status
    # The headroom is how many more pods are healthy than desired, or a negative number if too few are
    headroom = get_disruption_headroom(budget) + healthy_difference - desired_difference
    desired = status.desired_healthy + desired_difference
    return replace(
        status,
        current_healthy=desired + headroom,
        desired_healthy=desired,
        disruptions_allowed=max(headroom, 0),
    )
