"""What tells that a controller could not create what it wants: conditions, events, the API server's words in them.

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
MAKERS = ("ReplicaSet", "ReplicationController", "StatefulSet", "Deployment", "DaemonSet", "Job")
"""The kinds that make pods, themselves or through others."""
TOLD_BY = (*MAKERS, "Event")
"""The kinds that tell of pods that could not be created."""
JOB_ENDED = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
"""The conditions of a Job after which it wants no more pods."""
_FAILURES = {("ReplicaFailure", "True", FAILED_CREATE), ("Progressing", "False", NO_REPLICA_SET)}
_CONTROLLERS_WORDS = re.compile(
    r"(\(combined from similar events\): )?"
    r"(Error creating(?: job)?: |Failed to create new replica set \"[^\"]*\": "
    r"|Create \S+ \S+ (?:for Pod \S+ )?in StatefulSet \S+ failed error: )?"
    r"(failed to create PVC \S+: )?"
)
_REFUSED = re.compile(r'(\S+) "([^"]*)" is (?:forbidden: |(invalid: ))')
_CALLED = {"persistentvolumeclaims": "claim"}
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


def tells_of_failure(condition: Condition) -> bool:
    """Whether it says that something could not be created the last time that its controller tried."""
    return (condition.type, condition.status, condition.reason) in _FAILURES


def creation_failure(conditions: Iterable[Condition]) -> Condition | None:
    """The first condition that says so."""
    return next(filter(tells_of_failure, conditions), None)


def api_words(message: str) -> str:
    """What the API server said, of the message of an event or a condition.

    >>> api_words('Error creating: pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq')
    'pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq'
    >>> api_words("Create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: no")
    'no'
    """
    return message[_said(message).end() :]


def controllers_words(message: str) -> str:
    """What its controller said before that, whether or not the event stands for several."""
    said = _said(message)
    return (said[2] or "") + (said[3] or "")


def _said(message: str) -> re.Match[str]:
    match = _CONTROLLERS_WORDS.match(message)
    assert match is not None  # it matches nothing, too
    return match


def in_brief(words: str) -> str:
    """The API server's words without the name of the pod, which differs from try to try.

    >>> in_brief('pods "web-5d5f-x2x4z" is forbidden: exceeded quota: rq')
    'exceeded quota: rq'
    >>> in_brief('persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: rq')
    'claim data-db-0: exceeded quota: rq'
    >>> in_brief('Pod "web-x" is invalid: spec.containers[0].resources: Forbidden: no')
    'invalid: spec.containers[0].resources: Forbidden: no'
    """
    refused = _REFUSED.match(words)
    if refused is None:
        return words
    kind, name, invalid = refused.groups(default="")
    whose = "" if kind in _PODS else f"{_CALLED.get(kind, kind)} {name}: "
    return f"{whose}{invalid}{words[refused.end() :]}"


def gist(message: str) -> str:
    """What it is about in words of Kubernetes alone, in which nothing has a name; empty for what is not known.

    >>> gist('pods "web-x" is forbidden: exceeded quota: gold, requested: pods=1'), gist("gold is out")
    ('exceeded quota', '')
    >>> gist('pods "web-x" is forbidden: maximum cpu usage per Container is 1, but limit is 2')
    'maximum usage per Container'
    """
    bound = re.search(r"\b(minimum|maximum) \S+ usage per (Container|Pod|PersistentVolumeClaim)\b", message)
    if bound is not None:
        return f"{bound[1]} usage per {bound[2]}"
    return next((words for words in _GISTS if words in message), "")
