"""Pods that a PodDisruptionBudget counts as unhealthy, so that they use up the disruptions it allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kschedctl.api.labels import selector_from_api
from kschedctl.api.objects import Pod, PodDisruptionBudget

MAX_NAMED = 3


def explain_unhealthy(pod: Pod) -> str:
    """Return why a pod does not count as healthy, or "" if it does.

    A pod without a Ready condition counts as healthy.

    >>> from kschedctl.api.objects import Condition, ObjectMeta, PodSpec, PodStatus
    >>> status = PodStatus(phase="Running", conditions=(Condition("Ready", "False"),))
    >>> explain_unhealthy(Pod(ObjectMeta("dns-b", "kube-system"), PodSpec(node_name="n2"), status))
    'is not Ready'
    """
    if pod.terminated:
        return ""
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if not pod.spec.node_name:
        return "waits for a node"
    ready = all(condition.status == "True" for condition in pod.status.conditions if condition.type == "Ready")
    return "" if ready else "is not Ready"


def describe_unhealthy(pods: Sequence[Pod]) -> str:
    """Return a clause that names the first unhealthy pods with their nodes, or "" if all pods are healthy."""
    unhealthy = [(pod, why) for pod in pods if (why := explain_unhealthy(pod))]
    named = [f"{pod.key}{_format_node_suffix(pod)} {why}" for pod, why in unhealthy[:MAX_NAMED]]
    if len(unhealthy) > MAX_NAMED:
        named.append(f"and {len(unhealthy) - MAX_NAMED:,} more do not count either")
    return ", ".join(named)


def explain_used_up_budgets(
    pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget], all_pods: Iterable[Pod]
) -> dict[str, str]:
    """Return, for each pod that a used-up budget selects, a clause that names the budget's unhealthy pods."""
    causes: dict[str, str] = {}
    pods = list(pods)
    for budget in budgets if pods else ():
        namespace = budget.metadata.namespace
        selector = selector_from_api(budget.spec.selector)
        if budget.status.disruptions_allowed > 0:
            continue
        blocked = [p for p in pods if p.metadata.namespace == namespace and selector.matches(p.metadata.labels)]
        if blocked and (
            clause := describe_unhealthy(
                [p for p in all_pods if p.metadata.namespace == namespace and selector.matches(p.metadata.labels)]
            )
        ):
            causes.update((pod.key, f"{clause}, which uses up the budget") for pod in blocked)
    return causes


def list_unhealthy_keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return ``namespace/name`` of the pods that do not count as healthy."""
    return tuple(pod.key for pod in pods if explain_unhealthy(pod))


def _format_node_suffix(pod: Pod) -> str:
    return f" on {pod.spec.node_name}" if pod.spec.node_name else ""
