"""Events and leases that show how scheduling went, and the facts in an event, whoever wrote it.

Upstream: pkg/scheduler/schedule_one.go, pkg/scheduler/framework/preemption/executor.go (Scheduled, FailedScheduling,
Preempted), staging/src/k8s.io/client-go/tools/leaderelection (LeaderElection), pkg/kubelet/kubelet.go and
pkg/kubelet/lifecycle/predicate.go (rejections by a kubelet), pkg/controller/tainteviction; scale-ups of the Cluster
Autoscaler and Karpenter (v1.36).
"""

from __future__ import annotations

import re

from kschedctl.api.objects import Event, Pod, Struct
from kschedctl.api.observed.failed_creation import FAILED_CREATE, NO_REPLICA_SET

SCHEDULED, FAILED_SCHEDULING, PREEMPTED, LEADER_ELECTION = (
    "Scheduled",
    "FailedScheduling",
    "Preempted",
    "LeaderElection",
)
NOT_TRIGGERED, NOMINATED = "NotTriggerScaleUp", "Nominated"
OUT_OF = "OutOf"
KUBELET_REJECTIONS = frozenset(
    {
        *("AppArmor", "InitContainerRestartPolicyForbidden", "InvalidNodeInfo", "NodeAffinity", "NodeName"),
        *("NodePorts", "NodeShutdown", "OutOfcpu", "OutOfephemeral-storage", "OutOfmemory", "OutOfpods"),
        *("PodFeatureUnsupported", "PodLevelResourcesNotSupported", "PodOSNotSupported"),
        *("PodOSSelectorNodeLabelDoesNotMatch", "SupplementalGroupsPolicyNotSupported", "SysctlForbidden"),
        *("TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError", "UnexpectedPredicateFailureType"),
        *("UnknownReason", "VolumeAttachmentLimitExceeded"),
    }
)
"""The reasons with which a kubelet rejects a pod bound to it. OUT_OF is also followed by other resources."""
REASONS = KUBELET_REJECTIONS | {
    *(SCHEDULED, FAILED_SCHEDULING, PREEMPTED, LEADER_ELECTION),
    *("BindingConditionsPending", "Evicted", "Preempting", "TaintManagerEviction"),
    *("TriggeredScaleUp", NOT_TRIGGERED, NOMINATED),
    *(FAILED_CREATE, NO_REPLICA_SET),
}
"""The reasons of the events that are read."""
NODE_LEASES = "kube-node-lease"
_ASSIGNED = re.compile(r"Successfully assigned (\S+)/(\S+) to (\S+)")


def is_kubelet_rejection(reason: str) -> bool:
    """Return whether the reason is one with which a kubelet rejects pods bound to it."""
    return reason in KUBELET_REJECTIONS or reason.startswith(OUT_OF)


def is_irrelevant(obj: Struct) -> bool:
    """Return whether the object is an event unrelated to scheduling, a node's heartbeat, or has no name."""
    if not obj.metadata.name:  # type: ignore[attr-defined]
        return True
    if isinstance(obj, Event):
        return obj.reason not in REASONS and not is_kubelet_rejection(obj.reason)
    return bool(obj.metadata.namespace == NODE_LEASES)  # type: ignore[attr-defined]


def first_seen(event: Event) -> str:
    """Return when the event happened first, or "" if nothing tells."""
    return event.event_time or event.first_timestamp or event.last_timestamp or event.metadata.creation_timestamp or ""


def last_seen(event: Event) -> str:
    """Return when the event happened last."""
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or first_seen(event)


def is_event_about(event: Event, pod: Pod) -> bool:
    """Return whether the event is about the pod."""
    about = event.involved_object
    same = (about.namespace or event.metadata.namespace, about.name) == (pod.metadata.namespace, pod.metadata.name)
    return same and (not about.uid or not pod.metadata.uid or about.uid == pod.metadata.uid)


def count_occurrences(event: Event) -> int:
    """Return how often the event happened, at least 1."""
    return max(event.series.count if event.series else event.count, 1)


def get_reporter(event: Event) -> str:
    """Return who wrote the event; for a scheduler, the name by which pods choose it."""
    return event.reporting_component or event.source.component


def parse_assignment(event: Event) -> tuple[str, str, str] | None:
    """Return namespace, pod and node of a Scheduled event by kube-scheduler, or None for other events."""
    if event.reason != SCHEDULED or (event.involved_object.kind or "Pod") != "Pod":
        return None
    words = _ASSIGNED.fullmatch(event.message.strip())
    return (words[1], words[2], words[3]) if words else None
