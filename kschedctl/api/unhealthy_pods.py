"""Pods that a PodDisruptionBudget does not count as healthy, so that they use up what it allows.

Upstream: countHealthyPods in pkg/controller/disruption/disruption.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kschedctl.api.objects import Pod

MOST_NAMED = 3


def why_unhealthy(pod: Pod) -> str:
    """Return why a pod does not count as healthy, or "" if it does. A pod without a Ready condition counts as healthy.

    >>> from kschedctl.api.objects import Condition, ObjectMeta, PodSpec, PodStatus
    >>> status = PodStatus(phase="Running", conditions=(Condition("Ready", "False"),))
    >>> why_unhealthy(Pod(ObjectMeta("dns-b", "kube-system"), PodSpec(node_name="n2"), status))
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
    unhealthy = [(pod, why) for pod in pods if (why := why_unhealthy(pod))]
    named = [f"{pod.key}{_on_node(pod)} {why}" for pod, why in unhealthy[:MOST_NAMED]]
    if len(unhealthy) > MOST_NAMED:
        named.append(f"and {len(unhealthy) - MOST_NAMED:,} more do not count either")
    return ", ".join(named)


def unhealthy_keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return ``namespace/name`` of the pods that do not count as healthy."""
    return tuple(pod.key for pod in pods if why_unhealthy(pod))


def _on_node(pod: Pod) -> str:
    return f" on {pod.spec.node_name}" if pod.spec.node_name else ""
