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
    """Read an object's conditions. Raises InputError for a malformed time."""
    return {
        condition.type: WorkloadCondition(
            condition.status == "True",
            condition.reason,
            condition.message,
            parse_microseconds(condition.last_transition_time) if condition.last_transition_time else 0,
        )
        for condition in conditions
    }


def set_condition(conditions: Conditions, kind: ConditionType, condition: WorkloadCondition) -> tuple[Conditions, bool]:
    """Return the conditions with the condition of type ``kind`` set, and whether that changed anything.

    The time of the last transition stays if the status does. A message that is too long is cut.
    """
    message = _truncate(condition.message, _CONDITION_LIMIT)
    current = conditions.get(kind)
    since = condition.since if current is None or current.status != condition.status else current.since
    updated = condition._replace(message=message, since=since)
    if updated == current:
        return conditions, False
    return {**conditions, kind: updated}, True


def is_true(conditions: Conditions, kind: ConditionType) -> bool:
    """Return whether the condition is set and true."""
    condition = conditions.get(kind)
    return condition is not None and condition.status


def truncate_event_message(message: str) -> str:
    """Cut a message to the length that an Event may have, with an ellipsis if it is longer."""
    return _truncate(message, _EVENT_LIMIT)


def _truncate(message: str, limit: int) -> str:
    """Return a message as it is if it has at most ``limit`` bytes, else cut to them with an ellipsis at the end."""
    if len(message.encode()) <= limit:
        return message
    return message.encode()[: limit - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS
