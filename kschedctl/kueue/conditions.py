"""The conditions of a Workload, set as the API machinery sets them.

Upstream: apimachinery's pkg/api/meta/conditions.go and pkg/util/api/api.go of Kueue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from kschedctl.api import objects as api
from kschedctl.api.times import parse_microseconds

_CONDITION_LIMIT, _EVENT_LIMIT = 32 * 1024, 1024
_ELLIPSIS = " ..."


class ConditionType(StrEnum):
    """A type of condition that Kueue manages."""

    ADMITTED = "Admitted"
    DEACTIVATION_TARGET = "DeactivationTarget"
    EVICTED = "Evicted"
    FINISHED = "Finished"
    PREEMPTED = "Preempted"
    QUOTA_RESERVED = "QuotaReserved"
    REQUEUED = "Requeued"
    WAITING_FOR_REPLACEMENT_PODS = "WaitingForReplacementPods"


class WorkloadCondition(NamedTuple):
    """The state of one condition."""

    status: bool
    reason: str
    message: str
    since: int = 0
    """The time of the last change of status, in microseconds since 1970."""


Conditions = Mapping[str, WorkloadCondition]
"""Conditions by type. They are never changed in place."""


def read_conditions(conditions: Iterable[api.Condition]) -> Conditions:
    """Convert the conditions of an object, and key them by type. Raises InputError for a malformed time.

    A condition without a time gets 0, which is 1970.
    """
    return {
        condition.type: WorkloadCondition(
            status=condition.status == "True",
            reason=condition.reason,
            message=condition.message,
            since=parse_microseconds(condition.last_transition_time) if condition.last_transition_time else 0,
        )
        for condition in conditions
    }


def update_condition(
    conditions: Conditions, kind: ConditionType, condition: WorkloadCondition
) -> tuple[Conditions, bool]:
    """Return a copy of the conditions with the condition of type ``kind`` set, and whether anything changed.

    If the condition's status does not change, it keeps its transition time. A message that is too long is cut. If
    nothing changes, the given mapping is returned instead of a copy.
    """
    message = _truncate_message(condition.message, _CONDITION_LIMIT)
    current = conditions.get(kind)
    since = condition.since if current is None or current.status != condition.status else current.since
    updated = condition._replace(message=message, since=since)
    if updated == current:
        return conditions, False
    return {**conditions, kind: updated}, True


def is_condition_true(conditions: Conditions, kind: ConditionType) -> bool:
    """Return whether the condition of type ``kind`` is set and its status is True."""
    condition = conditions.get(kind)
    return condition is not None and condition.status


def truncate_event_message(message: str) -> str:
    """Cut a message to the length that an Event may have, with an ellipsis if it is longer."""
    return _truncate_message(message, _EVENT_LIMIT)


def _truncate_message(message: str, limit: int) -> str:
    """Cut a message to at most ``limit`` bytes, with an ellipsis at the end if it is longer."""
    if len(message.encode()) <= limit:
        return message
    return message.encode()[: limit - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS
