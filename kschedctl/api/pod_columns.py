"""What pods of one template do not share, as columns with one row a pod."""

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
from kschedctl.api.container_states import NOT_HELD, ContainersTold, with_states
from kschedctl.api.objects import Condition, Pod, PodStatus

MOST_CHARACTERS = 4096
"""Characters that are kept of a message."""


class OwnTexts(NamedTuple):
    """The texts of one pod, or of P as a list a column; "" for none."""

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
    def of(cls, pod: Pod) -> OwnTexts:
        meta, status = pod.metadata, pod.status
        scheduled, disrupted = condition(pod, "PodScheduled"), condition(pod, "DisruptionTarget")
        return cls(
            meta.uid,
            pod.spec.node_name,
            meta.creation_timestamp or "",
            status.start_time or "",
            scheduled.last_transition_time or "",
            disrupted.last_transition_time or "",
            status.message[:MOST_CHARACTERS],
            scheduled.message[:MOST_CHARACTERS],
            ContainersTold.of(status).text(),
        )


class OwnColumns(NamedTuple):
    """Columns of P pods.

    ``started``: when the kubelet took the pod in; ``scheduled``: since when its condition PodScheduled is as it is, of
    a bound pod when it was bound; ``disrupted``: the same of DisruptionTarget; ``message``: that of its status, as who
    refused or evicted it wrote it; ``refusal``: that of PodScheduled, what the scheduler said last; ``containers``:
    ContainersTold.
    """

    uids: TextColumn
    node: InternedTexts
    created: TextColumn
    started: TextColumn
    scheduled: TextColumn
    disrupted: InternedTexts
    message: InternedTexts
    refusal: InternedTexts
    containers: InternedTexts

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> OwnColumns:
        """From a list a column, in the order of OwnTexts."""
        makers = (build_uid_column, intern_texts, *[build_time_column] * 3, *[intern_texts] * 4)
        columns: Any = [make(column) for make, column in zip(makers, texts, strict=True)]
        return cls(*columns)

    @classmethod
    def joined(cls, parts: Sequence[OwnColumns]) -> OwnColumns:
        """One below the other."""
        columns: Any = [concatenate_columns(column) for column in zip(*parts, strict=True)]
        return cls(*columns)

    @classmethod
    def taken(cls, parts: list[OwnColumns], rows: Rows) -> OwnColumns:
        """Some rows, in this order, of those that come one below the other; ``parts`` is emptied, which makes room."""
        left = [list(column) for column in zip(*parts, strict=True)]
        parts.clear()
        columns: Any = [concatenate_columns(left.pop(0)).take(rows) for _ in cls._fields]
        return cls(*columns)

    def take(self, rows: Rows) -> OwnColumns:
        """The rows in this order."""
        columns: Any = [column.take(rows) for column in self]
        return OwnColumns(*columns)


def condition(pod: Pod, kind: str) -> Condition:
    """The pod's condition of a type; an empty one where it has none."""
    return next((c for c in pod.status.conditions if c.type == kind), _NONE)


_NONE = Condition()


def with_texts(status: PodStatus, own: OwnTexts) -> PodStatus:
    """The status of a template with what is a pod's own; PodScheduled, where it holds, stays away."""
    if own.started or own.message:
        status = replace(status, start_time=own.started or None, message=own.message)
    if own.containers not in ("", NOT_HELD):
        status = with_states(status, own.containers)
    if not any(c.type in ("PodScheduled", "DisruptionTarget") for c in status.conditions):
        return status
    return replace(status, conditions=tuple([_with_time(c, own) for c in status.conditions]))


def _with_time(condition: Condition, own: OwnTexts) -> Condition:
    if condition.type == "PodScheduled":
        return replace(condition, message=own.refusal, last_transition_time=own.scheduled or None)
    if condition.type == "DisruptionTarget":
        return replace(condition, last_transition_time=own.disrupted or None)
    return condition
