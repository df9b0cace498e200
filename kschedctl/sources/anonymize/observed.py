"""Handlers for annotations, events, leases and conditions, of which only strings of a known form are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from kschedctl.api import objects as api
from kschedctl.api.container_states import CONTAINER_STATES
from kschedctl.api.events import (
    FAILED_CREATE,
    JOB_ENDED,
    NO_REPLICA_SET,
    OUT_OF,
    classify_denial_message,
    reports_creation_failure,
)
from kschedctl.api.kinds import LEASE
from kschedctl.api.noise import NODE_GROUP_ANNOTATIONS, is_read_annotation
from kschedctl.scheduler.plugins.helper.csi_migration import MIGRATED_PLUGINS
from kschedctl.sources.anonymize.expressions import is_known_driver
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter, drop_text, replace_object_name

COMPONENTS = frozenset(
    {
        *("cluster-autoscaler", "karpenter", "kube-controller-manager", "kube-scheduler", "kubelet"),
        *("taint-controller", "taint-eviction-controller"),
    }
)
"""Well-known components that write events or hold leases."""
_ASSIGNED = re.compile(r"(Successfully assigned )(\S+)(/)(\S+)( to )(\S+)")
_PREEMPTED = re.compile(r"(Preempted by pod )(\S+)( on node )(\S+)")
_LEADER_CHANGED = re.compile(r"(\S+)( became leader| stopped leading)")


def replace_kubelet_reason(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the resource in a kubelet's reason such as ``OutOfexample.com/fpga``. Other reasons are kept."""
    if not value.startswith(OUT_OF) or value == OUT_OF:
        return value
    return f"{OUT_OF}{rewriter.replace_resource(value.removeprefix(OUT_OF))}"


def drop_unknown_container_reason(rewriter: Rewriter, value: str, obj: object) -> str:
    """Drop the reason of a container's state unless it is well known, because runtimes may write anything.

    Return "" in place of a dropped reason.
    """
    return value if value in CONTAINER_STATES else ""


def _replace_component_name(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of a component, such as a scheduler, unless it is well known."""
    return value if value in COMPONENTS else rewriter.replace_object_name(value)


def _replace_holder_identity(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace both parts of a lease holder's identity, which leader election writes as ``host_uuid``."""
    return "_".join(map(rewriter.replace_name, value.split("_")))


def _replace_reporting_instance(rewriter: Rewriter, value: str, obj: api.Event) -> str:
    """Replace the component and the host in an event's reporting instance, ``component-host``.

    A reporting instance in any other form is replaced entirely.
    """
    component = obj.reporting_component
    if component and value.startswith(f"{component}-"):
        host = value.removeprefix(f"{component}-")
        return f"{_replace_component_name(rewriter, component, obj)}-{rewriter.replace_name(host)}"
    return rewriter.replace_name(value)


def _replace_event_message(rewriter: Rewriter, value: str, obj: api.Event) -> str:
    """Replace the names in an event's message, or return "" if its form is unknown.

    The message of a failed pod creation becomes its class, which contains no names.
    """
    if obj.reason in (FAILED_CREATE, NO_REPLICA_SET):
        return classify_denial_message(value)
    if match := _LEADER_CHANGED.fullmatch(value):
        identity, text = match.groups()
        return f"{_replace_holder_identity(rewriter, identity, obj)}{text}"
    match = _ASSIGNED.fullmatch(value) or _PREEMPTED.fullmatch(value)
    if match is None:
        return ""

    # In both patterns, every second group is a name.
    return "".join(rewriter.replace_name(part) if index % 2 else part for index, part in enumerate(match.groups()))


def _filter_workload_conditions(
    rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object
) -> tuple[api.Condition, ...]:
    """Keep only conditions about failed pod creations, and replace their messages by the classes of the messages."""
    return tuple(
        replace(condition, message=classify_denial_message(condition.message))
        for condition in value
        if reports_creation_failure(condition)
    )


def _filter_job_conditions(
    rewriter: Rewriter, value: tuple[api.Condition, ...], obj: object
) -> tuple[api.Condition, ...]:
    """Keep only the conditions of ended Jobs, without their reasons and messages."""
    return tuple(api.Condition(condition.type, condition.status) for condition in value if condition.type in JOB_ENDED)


def _replace_lease_name(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of a lease unless a well-known component holds it under this name."""
    return value if value in COMPONENTS else rewriter.replace_object_name(value)


def _replace_referenced_name(rewriter: Rewriter, value: str, obj: api.ObjectReference) -> str:
    """Replace the name in a reference to an object in the same way as the object's own name."""
    return value if obj.kind == LEASE and value in COMPONENTS else rewriter.replace_object_name(value)


OBSERVED_FIELDS: dict[type, dict[str, Handler]] = {
    api.RecordMeta: {"name": _replace_lease_name, "namespace": replace_object_name},
    api.ObjectReference: {
        "namespace": replace_object_name,
        "name": _replace_referenced_name,
        "uid": replace_object_name,
    },
    api.EventSource: {"component": _replace_component_name, "host": replace_object_name},
    api.Event: {
        "reason": replace_kubelet_reason,
        "message": _replace_event_message,
        "reporting_component": _replace_component_name,
        "reporting_instance": _replace_reporting_instance,
        "note": drop_text,  # empty in every event that was read, since reading moves it to ``message``
        "reporting_controller": drop_text,
    },
    api.WorkloadStatus: {"conditions": _filter_workload_conditions},
    api.StoredJobStatus: {"conditions": _filter_job_conditions},
    api.LeaseSpec: {"holder_identity": _replace_holder_identity},
}
"""Struct -> its fields that are rewritten or dropped."""


KEPT_ANNOTATION_VALUES = frozenset({"true", "false", "yes"})
FREE_TEXT_ANNOTATIONS = frozenset({"kschedctl/ignore"})
CAPACITY_LABELS, CAPACITY_TAINTS = (
    f"capacity.cluster-autoscaler.kubernetes.io/{name}" for name in ("labels", "taints")
)
_NODE_GROUP_VALUE = re.compile(
    r"Machine(Set|Deployment|Pool)|true|false|\d+(\.\d+)?([KMGTPE]i?|m|k)?|(\d+(\.\d+)?([mun]?s|m|h))+"
)
"""Values in annotations of node groups that are kept: kinds, switches, quantities and durations."""
_SETTING = re.compile(r"true|false|on-completion|api|file|http|(?:[0-9.]+(?:ns|us|ms|s|m|h))*|-?[0-9]+")
"""Values of pods' annotations that autoscalers and the descheduler understand, and that are kept."""


def replace_unknown_setting(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the value of an annotation unless it is a setting that autoscalers or the descheduler understand."""
    return value if _SETTING.fullmatch(value) else rewriter.replace_name(value)


def replace_name_list(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace each name in a comma-separated list. Blanks count as part of a name, and empty names are kept."""
    return ",".join(name and rewriter.replace_object_name(name) for name in value.split(","))


def anonymize_annotations(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    """Replace the names in annotations. Free text and annotations that kschedctl does not read are dropped."""
    return {
        key: _replace_annotation_value(rewriter, key, annotation)
        for key, annotation in value.items()
        if is_read_annotation(key) and key not in FREE_TEXT_ANNOTATIONS
    }


def _replace_annotation_value(rewriter: Rewriter, key: str, value: str) -> str:
    """Keep the parts of an annotation's value that are known settings or have a known form, and replace the rest.

    In the list of migrated plugins, drivers that are not well known are dropped instead. In lists of labels or taints,
    each entry is replaced separately. Numbers, quantities, durations and similar values are kept in annotations of node
    groups only.
    """
    if key == MIGRATED_PLUGINS:
        return ",".join(name for name in value.split(",") if is_known_driver(name))
    if key in (CAPACITY_LABELS, CAPACITY_TAINTS):
        return ",".join(_replace_label_or_taint(rewriter, part) for part in value.split(","))
    if key.startswith(NODE_GROUP_ANNOTATIONS) and _NODE_GROUP_VALUE.fullmatch(value):
        return value
    return value if value in KEPT_ANNOTATION_VALUES else rewriter.replace_name(value)


def _replace_label_or_taint(rewriter: Rewriter, text: str) -> str:
    """Replace the key and the value of a label, ``key=value``, or of a taint, ``key=value:effect``."""
    key, equals, value_and_effect = text.partition("=")
    value, colon, effect = value_and_effect.partition(":")
    return f"{rewriter.replace_key(key)}{equals}{rewriter.replace_label_value(key, value)}{colon}{effect}"
