"""Events and leases: which of them tell how scheduling went, and what an event says of itself, whoever wrote it.

Upstream: pkg/scheduler/schedule_one.go, pkg/scheduler/framework/preemption/executor.go (Scheduled, FailedScheduling,
Preempted), staging/src/k8s.io/client-go/tools/leaderelection (LeaderElection), pkg/kubelet/kubelet.go and
pkg/kubelet/lifecycle/predicate.go (what a kubelet refuses), pkg/controller/tainteviction; cluster-autoscaler's and
Karpenter's scale-ups (v1.36).
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
REFUSALS = frozenset(
    {
        *("AppArmor", "InitContainerRestartPolicyForbidden", "InvalidNodeInfo", "NodeAffinity", "NodeName"),
        *("NodePorts", "NodeShutdown", "OutOfcpu", "OutOfephemeral-storage", "OutOfmemory", "OutOfpods"),
        *("PodFeatureUnsupported", "PodLevelResourcesNotSupported", "PodOSNotSupported"),
        *("PodOSSelectorNodeLabelDoesNotMatch", "SupplementalGroupsPolicyNotSupported", "SysctlForbidden"),
        *("TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError", "UnexpectedPredicateFailureType"),
        *("UnknownReason", "VolumeAttachmentLimitExceeded"),
    }
)
"""The reasons with which a kubelet refuses a pod that was bound to it; OUT_OF also goes on with other resources."""
REASONS = REFUSALS | {
    *(SCHEDULED, FAILED_SCHEDULING, PREEMPTED, LEADER_ELECTION),
    *("BindingConditionsPending", "Evicted", "Preempting", "TaintManagerEviction"),
    *("TriggeredScaleUp", NOT_TRIGGERED, NOMINATED),
    *(FAILED_CREATE, NO_REPLICA_SET),
}
"""The reasons of the events that are read."""
NODE_LEASES = "kube-node-lease"
_ASSIGNED = re.compile(r"Successfully assigned (\S+)/(\S+) to (\S+)")


def is_refusal(reason: str) -> bool:
    """Whether a kubelet fails pods for it that the scheduler had given it."""
    return reason in REFUSALS or reason.startswith(OUT_OF)


def is_passed_over(obj: Struct) -> bool:
    """Whether it is an event that says nothing of scheduling, or the heartbeat of a node, or has no name."""
    if not obj.metadata.name:  # type: ignore[attr-defined]
        return True
    if isinstance(obj, Event):
        return obj.reason not in REASONS and not is_refusal(obj.reason)
    return bool(obj.metadata.namespace == NODE_LEASES)  # type: ignore[attr-defined]


def first_time(event: Event) -> str:
    """When it happened, the first time if more than once; "" where nobody says."""
    return event.event_time or event.first_timestamp or event.last_timestamp or event.metadata.creation_timestamp or ""


def last_time(event: Event) -> str:
    """When it happened last."""
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or first_time(event)


def event_is_about(event: Event, pod: Pod) -> bool:
    about = event.involved_object
    same = (about.namespace or event.metadata.namespace, about.name) == (pod.metadata.namespace, pod.metadata.name)
    return same and (not about.uid or not pod.metadata.uid or about.uid == pod.metadata.uid)


def times_seen(event: Event) -> int:
    """How often it happened, at least once."""
    return max(event.series.count if event.series else event.count, 1)


def reporter(event: Event) -> str:
    """Who wrote it: of a scheduler the name by which pods choose it."""
    return event.reporting_component or event.source.component


def assigned(event: Event) -> tuple[str, str, str] | None:
    """Namespace, pod and node of a Scheduled event of a kube-scheduler; None for others."""
    if event.reason != SCHEDULED or (event.involved_object.kind or "Pod") != "Pod":
        return None
    words = _ASSIGNED.fullmatch(event.message.strip())
    return (words[1], words[2], words[3]) if words else None
