"""Predicates on pods, which decide whether Karpenter provisions, reschedules, evicts or protects them.

Upstream: pkg/utils/pod/scheduling.go, pkg/utils/pdb/pdb.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kschedctl.api.labels import selector_from_api
from kschedctl.api.objects import Pod, PodDisruptionBudget, Taint
from kschedctl.api.quantity import INT64_MAX
from kschedctl.api.times import parse_microseconds
from kschedctl.api.tolerations import is_tolerated
from kschedctl.api.unhealthy_pods import explain_strict_budget, explain_unhealthy_pod
from kschedctl.cel.library.times import parse_go_duration
from kschedctl.errors import InputError

DISRUPTED = Taint("karpenter.sh/disrupted", effect="NoSchedule")
BudgetPredicate = Callable[[PodDisruptionBudget], bool]


def is_provisionable(pod: Pod) -> bool:
    """Return whether the pod is unschedulable and Karpenter may launch a node for it.

    Karpenter launches none for pods that are bound or nominated, for pods of DaemonSets, and for mirror pods.
    """
    if pod.spec.node_name or pod.status.nominated_node_name or is_daemon_set_pod(pod) or is_mirror_pod(pod):
        return False
    return any(
        condition.type == "PodScheduled" and condition.reason == "Unschedulable" for condition in pod.status.conditions
    )


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Return whether the pod has not ended and is not being deleted."""
    return not pod.terminated and not is_terminating(pod)


def is_reschedulable(pod: Pod) -> bool:
    """Return whether the pod needs another node when its node is removed.

    Pods of DaemonSets, mirror pods and inactive pods do not, except for terminating pods of StatefulSets.
    """
    if is_daemon_set_pod(pod) or is_mirror_pod(pod):
        return False
    # A StatefulSet recreates a terminating pod only once the pod is gone, so its place is reserved until then.
    return is_active(pod) or (is_terminating(pod) and _is_owned_by(pod, "apps/v1", "StatefulSet"))


def is_daemon_set_pod(pod: Pod) -> bool:
    """Return whether a DaemonSet owns the pod."""
    return _is_owned_by(pod, "apps/v1", "DaemonSet")


def is_mirror_pod(pod: Pod) -> bool:
    """Return whether the pod mirrors a static pod of a kubelet."""
    return _is_owned_by(pod, "v1", "Node")


def is_protected_from_disruption(pod: Pod, now: int) -> bool:
    """Return whether the do-not-disrupt annotation protects the pod at ``now`` (microseconds since 1970).

    The annotation is "true" or a duration from the pod's start. An invalid duration does not protect the pod.
    """
    annotation = pod.metadata.annotations.do_not_disrupt
    if annotation is None:
        return False
    if annotation == "true":
        return True
    duration = parse_protection_duration(annotation)
    if duration <= 0:
        return False
    started = pod.status.start_time
    return started is None or (now - parse_microseconds(started)) * 1000 < duration


def parse_protection_duration(annotation: str) -> int:
    """Return how many nanoseconds after a pod's start its do-not-disrupt annotation protects the pod.

    Return 0 if the annotation is invalid.
    """
    if annotation == "true":
        return INT64_MAX
    try:
        return max(parse_go_duration(annotation, where=""), 0)
    except InputError:
        return 0


def is_disruptable(pod: Pod, now: int) -> bool:
    """Return whether the do-not-disrupt annotation allows disrupting the pod.

    Inactive pods can always be disrupted.
    """
    return not is_active(pod) or not is_protected_from_disruption(pod, now)


def is_evictable(pod: Pod, now: int) -> bool:
    """Return whether draining the pod's node would evict the pod, so that PodDisruptionBudgets apply to it."""
    return is_active(pod) and is_drainable(pod) and not is_protected_from_disruption(pod, now)


def is_drainable(pod: Pod) -> bool:
    """Return whether draining its node would evict the pod.

    Mirror pods and pods that tolerate the disruption taint stay. Whether the pod is inactive or protected is not
    checked.
    """
    return not is_tolerated(pod.spec.tolerations, DISRUPTED, comparison_operators=True) and not is_mirror_pod(pod)


def _is_owned_by(pod: Pod, version: str, kind: str) -> bool:
    """Return whether the pod has an owner reference with this API version and kind."""
    return any(
        reference.api_version == version and reference.kind == kind for reference in pod.metadata.owner_references
    )


class EvictionLimits:
    """The limits that PodDisruptionBudgets set on evictions at ``now`` (microseconds)."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], pods: Iterable[Pod], now: int) -> None:
        self.now = now
        self._pods = pods
        self._budgets = [(budget, selector_from_api(budget.spec.selector)) for budget in budgets]

    def find_blocking_budgets(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets that forbid evicting the pod now, as ``namespace/name``.

        If several budgets select the pod, all of them forbid it, because the eviction API supports only one budget.
        """
        return self._find_forbidding_budgets(pod, lambda budget: budget.status.disruptions_allowed == 0)

    def find_unhealthy_pods(self, budget_key: str) -> list[Pod]:
        """Return the unhealthy pods that use up the budget ``namespace/name``, or [] if there is no such budget.

        The list is also empty if the budget never allows an eviction.
        """
        for budget, selector in self._budgets:
            namespace = budget.metadata.namespace
            if f"{namespace}/{budget.metadata.name}" != budget_key:
                continue
            if explain_strict_budget(budget):
                return []
            selected = [
                pod
                for pod in self._pods
                if pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels)
            ]
            return [pod for pod in selected if explain_unhealthy_pod(pod)]
        return []

    def is_currently_reschedulable(self, pod: Pod) -> bool:
        """Return whether the pod needs another node if its node is removed, and may be evicted.

        A budget forbids the eviction only if its spec never allows a disruption.
        """
        return (
            is_reschedulable(pod)
            and is_disruptable(pod, self.now)
            and not self._find_forbidding_budgets(pod, _is_fully_blocking)
        )

    def _find_forbidding_budgets(self, pod: Pod, forbids: BudgetPredicate) -> tuple[str, ...]:
        """Return ``namespace/name`` of the budgets that select the pod and forbid its eviction.

        If a single budget selects the pod, ``forbids`` decides, unless the pod is unready and the budget always
        allows evicting unready pods. If several budgets select the pod, all of them forbid the eviction. Return () if
        the eviction is allowed, or if Karpenter would not evict the pod in any case.
        """
        if not self._budgets or not is_evictable(pod, self.now):
            return ()
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        matching = [
            budget
            for budget, selector in self._budgets
            if budget.metadata.namespace == namespace and selector.matches(labels)
        ]
        if len(matching) == 1:
            (budget,) = matching
            if _always_allows_unready_pod(budget, pod) or not forbids(budget):
                return ()
        return tuple(f"{namespace}/{budget.metadata.name}" for budget in matching)


def _always_allows_unready_pod(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether the budget allows evicting the pod because the pod is not ready (AlwaysAllow)."""
    if budget.spec.unhealthy_pod_eviction_policy != "AlwaysAllow":
        return False
    return any(condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions)


def _is_fully_blocking(budget: PodDisruptionBudget) -> bool:
    """Return whether the budget's spec rules out every eviction, whatever its status is."""
    spec = budget.spec
    return spec.max_unavailable in (0, "0%") or spec.min_available == "100%"
