"""Gangs of other projects: their objects, and which of their pods have a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kschedctl.api.arrays import Position, Rows
from kschedctl.api.gangs import GROUP_KINDS, KUEUE_TOTAL_COUNT, GangKey, GangProject, find_gangs
from kschedctl.api.objects import CoschedulingPodGroup, Pod, VolcanoPodGroup
from kschedctl.api.pod_table import PodTable
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, mask_placed_pods
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult
    from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure

MAX_SHOWN = 20
"""Maximum number of characters shown of a text that is not a number."""
GangObject = CoschedulingPodGroup | VolcanoPodGroup


@runtime_checkable
class GangPlugin(Plugin, Protocol):
    """A plugin whose Permit makes the pods of a gang wait for each other."""

    def find_gang(self, pod: Pod) -> GangKey | None:
        """Return the gang of a pod, or None if it belongs to none."""

    def find_member_failures(
        self, result: GroupResult, members: Sequence[Position], view: Fork
    ) -> dict[Position, MemberFailure]:
        """Return the failures of the members that are not bound, in the order of `members`."""

    def find_reason_to_give_up(self, pod: Pod, view: Fork) -> str:
        """Return why the gang's waiting pods leave their nodes if this pod fits nowhere, or "" if they keep waiting."""

    @property
    def sibling_rejection_reason(self) -> str:
        """The reason for rejecting the gang's waiting pods after one of its pods was rejected."""

    def handle_permit_result(self, pod: Pod, view: Fork, *, waits: bool) -> Sequence[Position]:
        """Record that a pod passed Permit or, if `waits`, waits there. Return the pods to try as soon as possible."""

    def record_failure(self, pod: Pod, view: Fork, *, fits_nowhere: bool = False) -> None:
        """Record in the view's history that the gang failed, because a pod fits nowhere or had to leave its node."""


def find_gang_plugin(framework: FrameworkLike) -> GangPlugin | None:
    """Return the profile's Permit plugin that makes pods of a gang wait for each other, or None."""
    return next((plugin for plugin in framework.plugins_at("permit") if offers(plugin, GangPlugin)), None)


class GangMinimum(NamedTuple):
    """The minimum numbers of pods of a gang that need nodes at the same time."""

    least: int | None
    """Minimum number of pods; None if it is unknown or invalid."""
    tasks: Mapping[str, int] = {}
    """Task -> minimum number of its pods."""
    problem: str = ""
    """The reason why `least` is None."""


class GangPods(NamedTuple):
    """Positions of a gang's pods that have not ended: pods without a node, and assumed or bound pods."""

    waiting: Rows
    assigned: Rows

    @property
    def size(self) -> int:
        """Number of pods that have not ended."""
        return len(self.waiting) + len(self.assigned)

    def count_gated_pods(self, view: Fork) -> int:
        """Return how many pods of the gang, on nodes or not, have scheduling gates."""
        gated = view.memo((GangPods, "gated"), lambda: view.pods.where(_is_gated))
        return int(gated[view.pods.info[np.concatenate(self)]].sum())


def find_gang_pods(view: Fork, key: GangKey) -> GangPods:
    """Return the pods of a gang that have not ended, divided into pods without a node and pods on nodes.

    Pods that were evicted and not created again are left out.
    """
    # Only pods that have not ended have positions.
    positions = view.pods.positions_by_gang.get(key, NO_MEMBERS)
    if view.absent is not None:  # some pods may have been evicted
        positions = positions[~view.absent[positions]]
    is_placed = mask_placed_pods(view, positions)
    return GangPods(positions[~is_placed], positions[is_placed])


class EndedPods(NamedTuple):
    """Rows, in the table of all pods, of a gang's pods that have ended."""

    succeeded: Rows = NO_MEMBERS
    failed: Rows = NO_MEMBERS


def find_ended_pods(view: Fork) -> Mapping[GangKey, EndedPods]:
    """Return the succeeded and failed pods of each gang that has any."""
    return view.memo(EndedPods, lambda: dict(_iter_ended_pods(view.cluster.pods)))


def _iter_ended_pods(table: PodTable) -> Iterator[tuple[GangKey, EndedPods]]:
    """Yield each gang that has ended pods, with the rows of its succeeded and of its failed pods."""
    succeeded: dict[GangKey, list[int]] = {}
    failed: dict[GangKey, list[int]] = {}

    # Pods that share a template have the same phase and the same gangs.
    for template_number, template in enumerate(table.templates):
        if not template.terminated:
            continue
        templates_by_gang = failed if template.status.phase == "Failed" else succeeded
        for key in find_gangs(template):
            templates_by_gang.setdefault(key, []).append(template_number)

    for key in {**succeeded, **failed}:
        succeeded_rows = np.flatnonzero(np.isin(table.template, succeeded.get(key, [])))
        failed_rows = np.flatnonzero(np.isin(table.template, failed.get(key, [])))
        yield key, EndedPods(succeeded_rows, failed_rows)


def get_gang_minimum(view: Fork, key: GangKey) -> GangMinimum:
    """Return the minimum number of pods that a gang needs at once and, for Volcano, the minimum per task.

    The numbers come from the gang's object or, for Kueue, from an annotation on each pod. If the number is missing or
    invalid, the result names the problem.
    """
    if key.project is GangProject.KUEUE:
        return _get_kueue_minimum(view, key)
    gang = find_gang_object(view, key)
    if gang is None:
        gap = view.cluster.find_gap(GROUP_KINDS[key.project], key.namespace)
        return GangMinimum(least=None, problem=f"PodGroups {gap.why}" if gap else "its PodGroup does not exist")

    tasks = gang.spec.min_task_member if isinstance(gang, VolcanoPodGroup) else {}
    # Volcano ignores the tasks if they need more pods than the gang.
    are_tasks_counted = gang.spec.min_member >= sum(tasks.values())
    return GangMinimum(gang.spec.min_member, tasks if are_tasks_counted else {})


def _get_kueue_minimum(view: Fork, key: GangKey) -> GangMinimum:
    """Return the minimum number of pods of a Kueue group, which an annotation on each pod states.

    With fast admission, the group needs only the pods that exist, if these are fewer. If an annotation is missing or
    invalid, or if the annotations disagree, the result names the problem.
    """
    positions = view.pods.positions_by_gang.get(key, NO_MEMBERS).tolist()
    annotations = [view.pods.objects[position].metadata.annotations for position in positions]
    stated_totals: set[int] = set()
    for text in dict.fromkeys(annotation.pod_group_total_count for annotation in annotations):
        count = _parse_go_int(text)
        if count is None or count <= 0:
            fault = f'have "{text[:MAX_SHOWN]}" in' if text else "lack"
            return GangMinimum(least=None, problem=f"its pods {fault} annotation {KUEUE_TOTAL_COUNT}")
        stated_totals.add(count)

    if not stated_totals:
        return GangMinimum(least=None, problem=f"its pods lack annotation {KUEUE_TOTAL_COUNT}")
    if len(stated_totals) > 1:
        both = f"{min(stated_totals)} and {max(stated_totals)}"
        return GangMinimum(least=None, problem=f"its pods have both {both} in annotation {KUEUE_TOTAL_COUNT}")
    (total,) = stated_totals
    has_fast_admission = any(annotation.pod_group_fast_admission == "true" for annotation in annotations)
    if has_fast_admission:
        return GangMinimum(min(total, len(positions)))
    return GangMinimum(total)


def _parse_go_int(text: str) -> int | None:
    """Parse a number as Go's strconv.Atoi does.

    Return None if parsing fails or the number has more than 18 digits.
    """
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else None


def find_coscheduling_group(view: Fork, key: GangKey) -> CoschedulingPodGroup | None:
    """Return the PodGroup object of a scheduler-plugins gang, or None if it does not exist."""
    gang = find_gang_object(view, key._replace(project=GangProject.COSCHEDULING))
    return gang if isinstance(gang, CoschedulingPodGroup) else None


def find_gang_object(view: Fork, key: GangKey) -> GangObject | None:
    """Return the object that defines a gang, or None if it does not exist. Kueue has no such objects."""
    kind = GROUP_KINDS.get(key.project)
    if kind is None:
        return None
    gangs_by_name: Mapping[tuple[str, str], GangObject] = view.objects.index(("gangs", kind), _index_by_name, kind)
    return gangs_by_name.get((key.namespace, key.name))


def _index_by_name(groups: Iterable[GangObject]) -> dict[tuple[str, str], GangObject]:
    """Index groups by namespace and name."""
    return {(group.metadata.namespace, group.metadata.name): group for group in groups}


def _is_gated(info: PodInfo) -> bool:
    """Return whether the pod has scheduling gates."""
    return bool(info.spec.scheduling_gates)
