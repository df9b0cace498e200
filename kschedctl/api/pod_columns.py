"""The data that differ between pods of one template, as columns with one row per pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.api.arrays import Rows
from kschedctl.api.columns import (
    InternedTexts,
    TextColumn,
    build_time_column,
    build_uid_column,
    concatenate_columns,
    intern_texts,
)
from kschedctl.api.container_states import NOT_RECORDED, NotableContainers, with_container_states
from kschedctl.api.objects import Condition, Pod, PodStatus

MAX_MESSAGE_LENGTH = 4096
"""The number of characters kept of a message."""


class PodTexts(NamedTuple):
    """The strings of one pod, in the order of PodTextColumns. "" means none."""

    uid: str
    node: str
    created: str
    started: str
    scheduled: str
    disrupted: str
    message: str
    refusal: str
    containers: str

    @classmethod
    def from_pod(cls, pod: Pod) -> PodTexts:
        """Collect the strings in which pods of the same template differ.

        A missing time is "", and long messages are cut off.
        """
        meta = pod.metadata
        status = pod.status
        scheduled = get_condition(pod, "PodScheduled")
        disrupted = get_condition(pod, "DisruptionTarget")
        return cls(
            meta.uid,
            pod.spec.node_name,
            created=meta.creation_timestamp or "",
            started=status.start_time or "",
            scheduled=scheduled.last_transition_time or "",
            disrupted=disrupted.last_transition_time or "",
            message=status.message[:MAX_MESSAGE_LENGTH],
            refusal=scheduled.message[:MAX_MESSAGE_LENGTH],
            containers=NotableContainers.from_status(status).to_text(),
        )


class PodTextColumns(NamedTuple):
    """Columns with the data of P pods."""

    uids: TextColumn
    node: InternedTexts
    created: TextColumn
    started: TextColumn
    """When the kubelet accepted the pod."""
    scheduled: TextColumn
    """The last transition of the PodScheduled condition; for a bound pod the time of binding."""
    disrupted: InternedTexts
    """The last transition of the DisruptionTarget condition."""
    message: InternedTexts
    """The message of the status, written by whoever rejected or evicted the pod."""
    unschedulable_message: InternedTexts
    """The message of the PodScheduled condition: the scheduler's last answer."""
    containers: InternedTexts
    """NotableContainers as text."""

    @classmethod
    def from_lists(cls, texts: Sequence[Sequence[str]]) -> PodTextColumns:
        """Build the columns from one list per field of PodTexts."""
        # For the UID, the node, three and then one more time, and the other texts
        builders = (build_uid_column, intern_texts, *[build_time_column] * 3, *[intern_texts] * 4)
        columns: Any = [build(column) for build, column in zip(builders, texts, strict=True)]
        return cls(*columns)

    @classmethod
    def concatenate(cls, parts: Sequence[PodTextColumns]) -> PodTextColumns:
        """Concatenate the rows of several parts."""
        columns: Any = [concatenate_columns(column) for column in zip(*parts, strict=True)]
        return cls(*columns)

    @classmethod
    def take_from_parts(cls, parts: list[PodTextColumns], rows: Rows) -> PodTextColumns:
        """Concatenate the parts and return the given rows. Empties ``parts`` to save memory."""
        remaining_columns = [list(column) for column in zip(*parts, strict=True)]
        parts.clear()
        columns: Any = []
        for _ in cls._fields:  # pop, so that the memory of each column is released before the next one is built
            columns.append(concatenate_columns(remaining_columns.pop(0)).take(rows))
        return cls(*columns)

    def take(self, rows: Rows) -> PodTextColumns:
        """Return the rows in the given order."""
        columns: Any = [column.take(rows) for column in self]
        return PodTextColumns(*columns)


def get_condition(pod: Pod, kind: str) -> Condition:
    """Return the pod's condition of a type, or an empty condition if it has none."""
    return next((condition for condition in pod.status.conditions if condition.type == kind), _NO_CONDITION)


_NO_CONDITION = Condition()


def restore_pod_status(status: PodStatus, pod_texts: PodTexts) -> PodStatus:
    """Return a template's pod status completed with the strings of one pod."""
    if pod_texts.started or pod_texts.message:
        status = replace(status, start_time=pod_texts.started or None, message=pod_texts.message)
    if pod_texts.containers not in ("", NOT_RECORDED):
        status = with_container_states(status, pod_texts.containers)
    if not any(condition.type in ("PodScheduled", "DisruptionTarget") for condition in status.conditions):
        return status
    return replace(
        status, conditions=tuple([_restore_condition(condition, pod_texts) for condition in status.conditions])
    )


def _restore_condition(condition: Condition, pod_texts: PodTexts) -> Condition:
    """Return a template's condition completed with the message and times of one pod."""
    if condition.type == "PodScheduled":
        return replace(condition, message=pod_texts.refusal, last_transition_time=pod_texts.scheduled or None)
    if condition.type == "DisruptionTarget":
        return replace(condition, last_transition_time=pod_texts.disrupted or None)
    return condition
