"""Pods that a PodDisruptionBudget counts as unhealthy, so that they use up the disruptions it allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kschedctl.api.labels import selector_from_api
from kschedctl.api.objects import Pod, PodDisruptionBudget

MAX_NAMED = 3


def explain_unhealthy_pod(pod: Pod) -> str:
    """Return why a pod counts as unhealthy, or "" if it counts as healthy.

    A pod that has terminated counts as healthy. Any other pod is unhealthy if it is being deleted, has no node, or has
    a Ready condition that is not True. A pod without a Ready condition can thus be healthy.

    >>> from kschedctl.api.objects import Condition, ObjectMeta, PodSpec, PodStatus
    >>> status = PodStatus(phase="Running", conditions=(Condition("Ready", "False"),))
    >>> explain_unhealthy_pod(Pod(ObjectMeta("dns-b", "kube-system"), PodSpec(node_name="n2"), status))
    'is not Ready'
    """
    if pod.terminated:
        return ""
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if not pod.spec.node_name:
        return "waits for a node"
    is_ready = all(condition.status == "True" for condition in pod.status.conditions if condition.type == "Ready")
    return "" if is_ready else "is not Ready"


def describe_unhealthy_pods(pods: Sequence[Pod]) -> str:
    """Return a clause that names the first unhealthy pods with their nodes, or "" if all pods are healthy.

    The clause names at most MAX_NAMED pods and says how many more are unhealthy.
    """
    clauses = []
    for pod in pods:
        reason = explain_unhealthy_pod(pod)
        if reason:
            node_suffix = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
            clauses.append(f"{pod.key}{node_suffix} {reason}")
    unnamed_count = len(clauses) - MAX_NAMED
    if unnamed_count > 0:
        # They do not count as healthy pods, like the pods that are named
        clauses = [*clauses[:MAX_NAMED], f"and {unnamed_count:,} more do not count either"]
    return ", ".join(clauses)


def explain_strict_budget(budget: PodDisruptionBudget) -> str:
    """Return the setting with which the budget allows no eviction even if all its pods are healthy, or "".

    >>> from kschedctl.api.objects import PodDisruptionBudgetSpec
    >>> explain_strict_budget(PodDisruptionBudget(spec=PodDisruptionBudgetSpec(max_unavailable=0)))
    'its maxUnavailable is 0'
    """
    if budget.spec.max_unavailable in (0, "0", "0%"):
        return f"its maxUnavailable is {budget.spec.max_unavailable}"
    return "its minAvailable is 100%" if budget.spec.min_available == "100%" else ""


def describe_used_up_budget(budget: PodDisruptionBudget, pods: Sequence[Pod]) -> str:
    """Return a clause that names the unhealthy pods that use up the budget, or "" if all its pods are healthy.

    The clause also says if the budget would allow no disruption even if all pods were healthy. ``pods`` are the pods
    that the budget selects.
    """
    unhealthy = describe_unhealthy_pods(pods)
    if not unhealthy:
        return ""
    total = sum(not pod.terminated for pod in pods)
    min_available = budget.spec.min_available
    allows_none = isinstance(min_available, int) and total <= min_available
    every = "both pods" if total == 2 else f"all {total:,} pods"
    suffix = f"; even with {every} healthy, it would allow none" if allows_none and total > 1 else ""
    return f"{unhealthy}, which uses up the budget{suffix}"


def explain_used_up_budgets(
    pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget], all_pods: Collection[Pod]
) -> dict[str, str]:
    """Explain, by pod key, why PodDisruptionBudgets allow no disruption of the given pods.

    An explanation is a clause that names the unhealthy pods of the budget, or says why the budget never allows an
    eviction. A budget without such a reason is skipped. Of several budgets that cover a pod, the last one is explained.
    Pods without an explained budget are left out.
    """
    causes: dict[str, str] = {}
    pods = list(pods)
    if not pods:
        return causes
    for budget in budgets:
        if budget.status.disruptions_allowed > 0:
            continue
        blocked_pods = _select_pods(pods, budget)
        if not blocked_pods:
            continue
        strict_limit = explain_strict_budget(budget)
        if strict_limit:
            cause = f"{strict_limit}, so that it never allows an eviction"
        else:
            cause = describe_used_up_budget(budget, _select_pods(all_pods, budget))
        if cause:
            causes.update((pod.key, cause) for pod in blocked_pods)
    return causes


def _select_pods(pods: Iterable[Pod], budget: PodDisruptionBudget) -> list[Pod]:
    """Return the pods that the budget selects. Raises SelectorError if a selector is invalid."""
    namespace = budget.metadata.namespace
    selector = selector_from_api(budget.spec.selector)
    return [pod for pod in pods if pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels)]


def list_unhealthy_keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return ``namespace/name`` of the pods that do not count as healthy."""
    return tuple(pod.key for pod in pods if explain_unhealthy_pod(pod))
