"""Conditions and events that report that a controller could not create a pod, and the API server's message in them.

Upstream: pkg/controller/controller_utils.go, pkg/controller/replicaset/replica_set_utils.go,
pkg/controller/statefulset/stateful_pod_control.go, pkg/controller/deployment/sync.go and
pkg/controller/cronjob/cronjob_controllerv2.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kschedctl.api.objects import Condition

FAILED_CREATE, NO_REPLICA_SET = "FailedCreate", "ReplicaSetCreateError"
"""The reasons of events, and of conditions: no pod (of a CronJob no Job), and of a Deployment no ReplicaSet."""
POD_CREATORS = ("ReplicaSet", "ReplicationController", "StatefulSet", "Deployment", "DaemonSet", "Job")
"""The kinds that create pods, directly or through other kinds."""
FAILURE_SOURCES = (*POD_CREATORS, "Event")
"""The kinds that report pods that could not be created."""
JOB_ENDED = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
"""The conditions after which a Job wants no more pods."""
_FAILURES = {("ReplicaFailure", "True", FAILED_CREATE), ("Progressing", "False", NO_REPLICA_SET)}
_CONTROLLER_PREFIX = re.compile(
    r"(\(combined from similar events\): )?"
    r"(Error creating(?: job)?: |Failed to create new replica set \"[^\"]*\": "
    r"|Create \S+ \S+ (?:for Pod \S+ )?in StatefulSet \S+ failed error: )?"
    r"(failed to create PVC \S+: )?"
)
_REFUSED = re.compile(r'(\S+) "([^"]*)" is (?:forbidden: |(invalid: ))')
_SHORT_KINDS = {"persistentvolumeclaims": "claim"}
_PODS = frozenset({"pods", "Pod"})
_GISTS = (
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


def reports_failure(condition: Condition) -> bool:
    """Return whether the condition says that the controller's last attempt to create an object failed."""
    return (condition.type, condition.status, condition.reason) in _FAILURES


def find_creation_failure(conditions: Iterable[Condition]) -> Condition | None:
    """Return the first condition that reports a failed creation, or None."""
    return next(filter(reports_failure, conditions), None)


def extract_api_message(message: str) -> str:
    """Return the API server's part of the message of an event or condition.

    >>> extract_api_message('Error creating: pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq')
    'pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq'
    >>> extract_api_message("Create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: no")
    'no'
    """
    return message[_match_prefix(message).end() :]


def extract_controller_prefix(message: str) -> str:
    """Return the controller's part of the message, before that of the API server."""
    said = _match_prefix(message)
    return (said[2] or "") + (said[3] or "")


def _match_prefix(message: str) -> re.Match[str]:
    match = _CONTROLLER_PREFIX.match(message)
    assert match is not None  # it matches nothing, too
    return match


def shorten_api_message(words: str) -> str:
    """Return the API server's message without the name of the pod, which differs from attempt to attempt.

    >>> shorten_api_message('pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq')
    'exceeded quota: rq'
    >>> shorten_api_message('persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: rq')
    'claim data-db-0: exceeded quota: rq'
    >>> shorten_api_message('Pod "web-x" is invalid: spec.containers[0].resources: Forbidden: no')
    'invalid: spec.containers[0].resources: Forbidden: no'
    """
    refused = _REFUSED.match(words)
    if refused is None:
        return words
    kind, name, invalid = refused.groups(default="")
    whose = "" if kind in _PODS else f"{_SHORT_KINDS.get(kind, kind)} {name}: "
    return f"{whose}{invalid}{words[refused.end() :]}"


def classify_message(message: str) -> str:
    """Return the subject of the message in words that contain no names, or "" if it is unknown.

    >>> classify_message('pods "web-x" is forbidden: exceeded quota: gold, requested: pods=1')
    'exceeded quota'
    >>> classify_message("gold is out")
    ''
    >>> classify_message('pods "web-x" is forbidden: maximum cpu usage per Container is 1, but limit is 2')
    'maximum usage per Container'
    """
    bound = re.search(r"\b(minimum|maximum) \S+ usage per (Container|Pod|PersistentVolumeClaim)\b", message)
    if bound is not None:
        return f"{bound[1]} usage per {bound[2]}"
    return next((words for words in _GISTS if words in message), "")
