"""Events and leases under pseudonyms: of a message only what is known to hold names in known places is kept."""

from __future__ import annotations

import re

from msgspec.structs import replace

from kschedctl.api import objects as api
from kschedctl.api.container_states import CONTAINER_STATES
from kschedctl.api.kinds import LEASE
from kschedctl.api.observed.events import OUT_OF
from kschedctl.api.observed.failed_creation import (
    FAILED_CREATE,
    JOB_ENDED,
    NO_REPLICA_SET,
    classify_message,
    reports_failure,
)
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

COMPONENTS = frozenset(
    {
        *("cluster-autoscaler", "karpenter", "kube-controller-manager", "kube-scheduler", "kubelet"),
        *("taint-controller", "taint-eviction-controller"),
    }
)
"""Who writes events everywhere, and the names of leases that everybody has."""
_ASSIGNED = re.compile(r"(Successfully assigned )(\S+)(/)(\S+)( to )(\S+)")
_PREEMPTED = re.compile(r"(Preempted by pod )(\S+)( on node )(\S+)")
_LED = re.compile(r"(\S+)( became leader| stopped leading)")


def reason_under_pseudonym(rewriter: Rewriter, value: str, obj: object) -> str:
    """The reason of a pod's status or an event: a kubelet's ``OutOfexample.com/fpga`` names a resource."""
    resource = value.removeprefix(OUT_OF)
    return f"{OUT_OF}{rewriter.resource(resource)}" if resource not in ("", value) else value


def container_reason(rewriter: Rewriter, value: str, obj: object) -> str:
    """Why a container waits or has ended: runtimes choose words of their own, which may tell anything."""
    return value if value in CONTAINER_STATES else ""


def _component(rewriter: Rewriter, value: str, obj: object) -> str:
    """A scheduler by the name that pods have for it."""
    return value if value in COMPONENTS else rewriter.own_name(value)


def _identity(rewriter: Rewriter, value: str, obj: object) -> str:
    """``host_uuid``, as leader election makes it."""
    return "_".join(map(rewriter.name, value.split("_")))


def _instance(rewriter: Rewriter, value: str, obj: api.Event) -> str:
    """``component-host``."""
    component = obj.reporting_component
    if component and value.startswith(f"{component}-"):
        return f"{_component(rewriter, component, obj)}-{rewriter.name(value.removeprefix(f'{component}-'))}"
    return rewriter.name(value)


def _message(rewriter: Rewriter, value: str, obj: api.Event) -> str:
    """With the names in it replaced; of any other message nobody knows what it tells, so it is left out."""
    if obj.reason in (FAILED_CREATE, NO_REPLICA_SET):
        return classify_message(value)
    if match := _LED.fullmatch(value):
        return f"{_identity(rewriter, match[1], obj)}{match[2]}"
    match = _ASSIGNED.fullmatch(value) or _PREEMPTED.fullmatch(value)
    if match is None:
        return ""
    return "".join(rewriter.name(part) if place % 2 else part for place, part in enumerate(match.groups()))


def _workload_conditions(
    rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object
) -> tuple[api.Condition, ...]:
    """Conditions that something could not be created, with no other words of the API server than Kubernetes' own."""
    return tuple(
        replace(condition, message=classify_message(condition.message))
        for condition in value
        if reports_failure(condition)
    )


def _job_conditions(rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object) -> tuple[api.Condition, ...]:
    """Conditions that a Job has ended."""
    return tuple(api.Condition(condition.type, condition.status) for condition in value if condition.type in JOB_ENDED)


def _record_name(rewriter: Rewriter, value: str, obj: object) -> str:
    """Leases of schedulers are called as they are."""
    return value if value in COMPONENTS else rewriter.own_name(value)


def _referred(rewriter: Rewriter, value: str, obj: api.ObjectReference) -> str:
    """The name that the object which is referred to gets."""
    return value if obj.kind == LEASE and value in COMPONENTS else rewriter.own_name(value)


def _name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.own_name(value)


def _nothing(rewriter: Rewriter, value: object, obj: object) -> str:
    return ""


OBSERVED_FIELDS: dict[type, dict[str, Handler]] = {
    api.RecordMeta: {"name": _record_name, "namespace": _name},
    api.ObjectReference: {"namespace": _name, "name": _referred, "uid": _name},
    api.EventSource: {"component": _component, "host": _name},
    api.Event: {
        "reason": reason_under_pseudonym,
        "message": _message,
        "reporting_component": _component,
        "reporting_instance": _instance,
        "note": _nothing,  # none is left once an event is read
        "reporting_controller": _nothing,
    },
    api.WorkloadStatus: {"conditions": _workload_conditions},
    api.StoredJobStatus: {"conditions": _job_conditions},
    api.LeaseSpec: {"holder_identity": _identity},
}
"""Struct -> its fields that are put under pseudonyms, or left out."""
