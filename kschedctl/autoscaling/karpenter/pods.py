"""Predicates on pods: whether Karpenter provisions, reschedules, evicts or protects them.

Upstream: pkg/utils/pod/scheduling.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from kschedctl.api.objects import Pod, Taint
from kschedctl.api.quantity import INT64_MAX
from kschedctl.api.times import parse_microseconds
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.durations import parse_go_duration
from kschedctl.errors import InputError

DISRUPTED = Taint("karpenter.sh/disrupted", effect="NoSchedule")


def is_provisionable(pod: Pod) -> bool:
    """Return whether the pod is unschedulable and waits for a node that Karpenter may launch."""
    return (
        any(
            condition.type == "PodScheduled" and condition.reason == "Unschedulable"
            for condition in pod.status.conditions
        )
        and not pod.spec.node_name
        and not pod.status.nominated_node_name
        and not is_daemon(pod)
        and not is_mirror(pod)
    )


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Return whether the pod has neither ended nor is being deleted."""
    return not pod.terminated and not is_terminating(pod)


def is_reschedulable(pod: Pod) -> bool:
    """Return whether the pod needs another node when its node is removed."""
    leaves = is_active(pod) or (is_terminating(pod) and _is_owned_by(pod, "apps/v1", "StatefulSet"))
    return leaves and not is_daemon(pod) and not is_mirror(pod)


def is_daemon(pod: Pod) -> bool:
    """Return whether a DaemonSet owns the pod."""
    return _is_owned_by(pod, "apps/v1", "DaemonSet")


def is_mirror(pod: Pod) -> bool:
    """Return whether the pod mirrors a static pod of a kubelet."""
    return _is_owned_by(pod, "v1", "Node")


def is_protected(pod: Pod, now: int) -> bool:
    """Return whether the do-not-disrupt annotation protects the pod at ``now`` (microseconds).

    An invalid duration does not protect it.
    """
    annotation = pod.metadata.annotations.do_not_disrupt
    if annotation is None or annotation == "true":
        return annotation is not None
    duration = parse_protection_duration(annotation)
    if duration <= 0:
        return False
    started = pod.status.start_time
    return started is None or (now - parse_microseconds(started)) * 1000 < duration


def parse_protection_duration(annotation: str) -> int:
    """Return for how many nanoseconds after its start the annotation protects a pod, or 0 if it is invalid."""
    if annotation == "true":
        return INT64_MAX
    try:
        return max(parse_go_duration(annotation, ""), 0)
    except InputError:
        return 0


def is_disruptable(pod: Pod, now: int) -> bool:
    """Return whether the do-not-disrupt annotation allows the pod's disruption. Inactive pods can always be
    disrupted.
    """
    return not is_active(pod) or not is_protected(pod, now)


def is_evictable(pod: Pod, now: int) -> bool:
    """Return whether the pod would have to be evicted, so that PodDisruptionBudgets apply to it."""
    return is_active(pod) and is_drainable(pod) and not is_protected(pod, now)


def is_drainable(pod: Pod) -> bool:
    """Return whether draining a node evicts the pod. Mirror pods and pods that tolerate the disruption taint stay."""
    return not is_tolerated(pod.spec.tolerations, DISRUPTED, comparison_operators=True) and not is_mirror(pod)


def _is_owned_by(pod: Pod, version: str, kind: str) -> bool:
    """Return whether an owner reference has this API version and kind."""
    return any(
        reference.api_version == version and reference.kind == kind for reference in pod.metadata.owner_references
    )
