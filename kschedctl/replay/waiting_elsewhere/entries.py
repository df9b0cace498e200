"""How a waiting object is reported: its name, age and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kschedctl.api.objects import Condition, ObjectMeta, Pod, PodMeta
from kschedctl.api.ownership import Owner, find_controller
from kschedctl.api.pod_table import PodTable
from kschedctl.api.times import format_age
from kschedctl.reports.waiting_elsewhere import ReportedCondition, WaitingElsewhere, WaitingState


def build_entry(
    kind: str,
    metadata: ObjectMeta | PodMeta,
    state: WaitingState,
    headline: str,
    *,
    now: str,
    pods: int | None = None,
    decides: str = "",
    details: Iterable[str] = (),
    conditions: Iterable[Condition] = (),
    holders: Iterable[str] = (),
    part_of: Iterable[Owner] = (),
    exists: bool | None = None,
) -> WaitingElsewhere:
    """Build the report on one waiting object. ``now`` is the RFC 3339 time for its age, empty for none.

    ``exists`` says whether the cluster has the object; None if its UID decides.
    """
    created = metadata.creation_timestamp or ""
    return WaitingElsewhere(
        resource=str(Owner(kind, metadata.namespace, metadata.name)),
        state=state,
        headline=headline,
        pods=pods,
        decides=decides,
        details=tuple(details),
        conditions=tuple(ReportedCondition(c.type, c.status, c.reason, c.message) for c in conditions),
        holders=tuple(holders),
        part_of=tuple(map(str, part_of)),
        created=created,
        age=format_age(created, now),
        exists=bool(metadata.uid) if exists is None else exists,
    )


def find_controller_key(metadata: ObjectMeta) -> Owner | None:
    """Return the object that controls this one, or None if it has no owner."""
    reference = find_controller(metadata) or next(iter(metadata.owner_references), None)
    return Owner(reference.kind, metadata.namespace, reference.name) if reference else None


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def is_condition_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Return whether the condition of this type is True."""
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"


def iter_pod_templates(pods: PodTable) -> Iterator[tuple[Pod, int]]:
    """Yield one pod of each group of alike pods that have not ended, with the size of the group.

    The yielded pod has no name.
    """
    counts = np.bincount(pods.template, minlength=len(pods.templates)).tolist()
    for template, count in zip(pods.templates, counts, strict=True):
        if count and not template.terminated:
            yield template, count
