"""Events, leases and conditions that show how scheduling and the creation of pods went, and the facts in them.

Upstream: pkg/scheduler/schedule_one.go, pkg/scheduler/framework/preemption/executor.go (Scheduled, FailedScheduling,
Preempted), staging/src/k8s.io/client-go/tools/leaderelection (LeaderElection), pkg/kubelet/kubelet.go and
pkg/kubelet/lifecycle/predicate.go (rejections by a kubelet), pkg/controller/tainteviction; scale-ups of the Cluster
Autoscaler and Karpenter; for pods that could not be created, controller_utils.go, replicaset/replica_set_utils.go,
statefulset/stateful_pod_control.go, deployment/sync.go and cronjob/cronjob_controllerv2.go in pkg/controller (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kschedctl.api.objects import Condition, Event, Pod, Struct

FAILED_CREATE, NO_REPLICA_SET = "FailedCreate", "ReplicaSetCreateError"
"""The reasons of events and conditions which report that a controller could not create a pod (for a CronJob, a Job), or
that a Deployment could not create a ReplicaSet.
"""
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
    """Return whether a kubelet rejects pods with this reason."""
    return reason in KUBELET_REJECTIONS or reason.startswith(OUT_OF)


def is_irrelevant_object(obj: Struct) -> bool:
    """Return whether nothing reads the object.

    Nothing reads objects without a name, and the heartbeat Leases of nodes. Events are read only if they are about
    scheduling or a kubelet's rejection of a pod.
    """
    if not obj.metadata.name:  # type: ignore[attr-defined]
        return True
    if isinstance(obj, Event):
        return obj.reason not in REASONS and not is_kubelet_rejection(obj.reason)
    return bool(obj.metadata.namespace == NODE_LEASES)  # type: ignore[attr-defined]


def get_first_time(event: Event) -> str:
    """Return the time when the event first happened, or "" if no field has it."""
    return event.event_time or event.first_timestamp or event.last_timestamp or event.metadata.creation_timestamp or ""


def get_last_time(event: Event) -> str:
    """Return the time when the event last happened, or "" if no field has it."""
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or get_first_time(event)


def is_event_about(event: Event, pod: Pod) -> bool:
    """Return whether the event is about this pod.

    Namespace and name have to be equal and, if both have a UID, the UIDs as well.
    """
    reference = event.involved_object
    namespace = reference.namespace or event.metadata.namespace
    if namespace != pod.metadata.namespace or reference.name != pod.metadata.name:
        return False
    return not reference.uid or not pod.metadata.uid or reference.uid == pod.metadata.uid


def count_occurrences(event: Event) -> int:
    """Return how often the event happened, which is at least once."""
    return max(event.series.count if event.series else event.count, 1)


def get_reporter(event: Event) -> str:
    """Return the component that wrote the event.

    A scheduler reports under the name that pods state as schedulerName.
    """
    return event.reporting_component or event.source.component


def parse_scheduled_event(event: Event) -> tuple[str, str, str] | None:
    """Return the namespace, name and node of a pod from its Scheduled event.

    Return None for any other event, and for a message in an unknown form.
    """
    if event.reason != SCHEDULED or (event.involved_object.kind or "Pod") != "Pod":
        return None
    match = _ASSIGNED.fullmatch(event.message.strip())
    if match is None:
        return None
    namespace, name, node = match.groups()
    return namespace, name, node


POD_CREATORS = ("ReplicaSet", "ReplicationController", "StatefulSet", "Deployment", "DaemonSet", "Job")
"""The kinds that create pods, directly or through other kinds."""


FAILURE_SOURCES = (*POD_CREATORS, "Event")
"""The kinds whose objects report that pods could not be created."""


JOB_ENDED = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
"""The conditions after which a Job needs no more pods."""


_FAILURES = {("ReplicaFailure", "True", FAILED_CREATE), ("Progressing", "False", NO_REPLICA_SET)}


_CONTROLLER_PREFIX = re.compile(
    r"(\(combined from similar events\): )?"
    r"(Error creating(?: job)?: |Failed to create new replica set \"[^\"]*\": "
    r"|Create \S+ \S+ (?:for Pod \S+ )?in StatefulSet \S+ failed error: )?"
    r"(failed to create PVC \S+: )?"
)


_DENIAL = re.compile(r'(\S+) "([^"]*)" is (?:forbidden: |(invalid: ))')


_SHORT_KINDS = {"persistentvolumeclaims": "claim"}


_PODS = frozenset({"pods", "Pod"})


_KNOWN_PHRASES = (
    "exceeded quota",
    "failed quota",
    "violates PodSecurity",
    "max limit to request ratio",
    "error looking up service account",
    "RuntimeClass",
    "PriorityClass",
    "is invalid",
    "failed calling webhook",
    "denied the request",
    "is being terminated",
)


def reports_creation_failure(condition: Condition) -> bool:
    """Return whether the condition reports that the controller's last attempt to create an object failed."""
    return (condition.type, condition.status, condition.reason) in _FAILURES


def find_creation_failure(conditions: Iterable[Condition]) -> Condition | None:
    """Return the first condition that reports a failed creation, or None."""
    return next(filter(reports_creation_failure, conditions), None)


def extract_api_message(message: str) -> str:
    """Return the API server's part of the message of an event or condition.

    >>> extract_api_message('Error creating: pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq')
    'pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq'
    >>> extract_api_message("Create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: no")
    'no'
    """
    return message[_match_prefix(message).end() :]


def extract_controller_prefix(message: str) -> str:
    """Return the controller's part of a message, which precedes the API server's part.

    The note that similar events were combined is left out.
    """
    _, action, claim_action = _match_prefix(message).groups(default="")
    return action + claim_action


def _match_prefix(message: str) -> re.Match[str]:
    """Match the controller's part of a message, which may be empty."""
    match = _CONTROLLER_PREFIX.match(message)
    assert match is not None  # all parts of the pattern are optional
    return match


def shorten_api_message(message: str) -> str:
    """Return the API server's message without the name of the pod, which differs between attempts.

    Objects of other kinds keep a short name.

    >>> shorten_api_message('pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq')
    'exceeded quota: rq'
    >>> shorten_api_message('persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: rq')
    'claim data-db-0: exceeded quota: rq'
    >>> shorten_api_message('Pod "web-x" is invalid: spec.containers[0].resources: Forbidden: no')
    'invalid: spec.containers[0].resources: Forbidden: no'
    """
    denial = _DENIAL.match(message)
    if denial is None:
        return message
    kind, name, invalid = denial.groups(default="")
    subject = "" if kind in _PODS else f"{_SHORT_KINDS.get(kind, kind)} {name}: "
    return f"{subject}{invalid}{message[denial.end() :]}"


def classify_denial_message(message: str) -> str:
    """Return a phrase for the reason of a denial, without names and amounts, or "" if the reason is unknown.

    >>> classify_denial_message('pods "web-x" is forbidden: exceeded quota: gold, requested: pods=1')
    'exceeded quota'
    >>> classify_denial_message("gold is out")
    ''
    >>> classify_denial_message('pods "web-x" is forbidden: maximum cpu usage per Container is 1, but limit is 2')
    'maximum usage per Container'
    """
    bound = re.search(r"\b(minimum|maximum) \S+ usage per (Container|Pod|PersistentVolumeClaim)\b", message)
    if bound is not None:
        return f"{bound[1]} usage per {bound[2]}"
    return next((phrase for phrase in _KNOWN_PHRASES if phrase in message), "")
