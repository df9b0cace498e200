"""Gangs of other projects: their objects, and which of their pods have a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from kschedctl.api.arrays import Position, Rows
from kschedctl.api.gangs import GROUP_KINDS, KUEUE_TOTAL_COUNT, GangKey, GangProject, find_gangs
from kschedctl.api.objects import CoschedulingPodGroup, Pod, VolcanoPodGroup
from kschedctl.api.pod_table import PodTable
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, has_node
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Plugin, offers
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

SHOWN = 20
"""Characters of a text that is no number."""
GangObject = CoschedulingPodGroup | VolcanoPodGroup


@runtime_checkable
class GangPlugin(Plugin, Protocol):
    """A plugin by whose Permit the pods of a gang wait for each other."""

    def gang(self, pod: Pod) -> GangKey | None:
        """The gang with which a pod is bound."""

    def failures(self, result: GroupResult, members: Sequence[Position], view: Fork) -> dict[Position, MemberFailure]:
        """Why those of the members are not bound that are not, in the order given."""

    def gives_up(self, pod: Pod, view: Fork) -> str:
        """Why the pods of its gang that wait leave when a pod fits nowhere; empty where they wait on."""

    @property
    def after_another(self) -> str:
        """Why they leave when one of them does."""

    def permitted(self, pod: Pod, view: Fork, *, waits: bool) -> Sequence[Position]:
        """A pod has passed Permit, or waits there: the pods that are to be tried as soon as possible."""

    def failed(self, pod: Pod, view: Fork, *, fits_nowhere: bool = False) -> None:
        """The gang of a pod that fits nowhere, or had to leave its node, has failed; the view's history keeps that."""


def gang_plugin(framework: FrameworkLike) -> GangPlugin | None:
    """The plugin of a profile that knows of gangs."""
    return next((plugin for plugin in framework.plugins_at("permit") if offers(plugin, GangPlugin)), None)


class GangTerms(NamedTuple):
    """How many pods of a gang have to have a node at once, in all and of each of its ``tasks``.

    ``least`` is None where nobody says so, or what is said is nonsense: ``problem`` tells that.
    """

    least: int | None
    tasks: Mapping[str, int] = {}
    problem: str = ""


class GangPods(NamedTuple):
    """The positions of the pods that have not ended: those without a node, and those that are assumed or bound."""

    waiting: Rows
    assigned: Rows

    @property
    def size(self) -> int:
        return len(self.waiting) + len(self.assigned)

    def gated(self, view: Fork) -> int:
        """How many have scheduling gates."""
        gated = view.memo((GangPods, "gated"), lambda: view.pods.where(_is_gated))
        return int(gated[view.pods.info[np.concatenate(self)]].sum())


def gang_pods(view: Fork, key: GangKey) -> GangPods:
    """Pods of a gang now."""
    positions = view.pods.by_gang.get(key, NO_MEMBERS)
    if view.absent is not None:
        positions = positions[~view.absent[positions]]
    assigned = has_node(view, positions)
    return GangPods(positions[~assigned], positions[assigned])


class EndedPods(NamedTuple):
    """The rows, in the table of all pods, of a gang's pods that have ended."""

    succeeded: Rows = NO_MEMBERS
    failed: Rows = NO_MEMBERS


def ended_pods(view: Fork) -> Mapping[GangKey, EndedPods]:
    """The ended pods of each gang that has some."""
    return view.memo(EndedPods, lambda: dict(_ended(view.cluster.pods)))


def _ended(table: PodTable) -> Iterator[tuple[GangKey, EndedPods]]:
    templates: dict[GangKey, tuple[list[int], list[int]]] = {}
    for number, template in enumerate(table.templates):
        for key in find_gangs(template) if template.terminated else ():
            templates.setdefault(key, ([], []))[template.status.phase == "Failed"].append(number)
    for key, numbers in templates.items():
        yield key, EndedPods(*(np.flatnonzero(np.isin(table.template, chosen)) for chosen in numbers))


def gang_terms(view: Fork, key: GangKey) -> GangTerms:
    """Terms of a gang by its object, or for Kueue by its pods."""
    if key.project is GangProject.KUEUE:
        return _total_count(view, key)
    gang = gang_object(view, key)
    if gang is None:
        gap = view.cluster.gap(GROUP_KINDS[key.project], key.namespace)
        return GangTerms(None, problem=f"PodGroups {gap.why}" if gap else "there is no PodGroup of that name")
    tasks = gang.spec.min_task_member if isinstance(gang, VolcanoPodGroup) else {}
    heeded = gang.spec.min_member >= sum(tasks.values())  # Volcano passes over tasks that want more together
    return GangTerms(gang.spec.min_member, tasks if heeded else {})


def _total_count(view: Fork, key: GangKey) -> GangTerms:
    """Kueue's: every pod of the group says how many they are."""
    positions = view.pods.by_gang.get(key, NO_MEMBERS).tolist()
    said = dict.fromkeys(
        view.pods.objects[position].metadata.annotations.pod_group_total_count for position in positions
    )
    counts = {text: number for text in said if (number := _atoi(text)) is not None and number > 0}
    wrong = next((text for text in said if text not in counts), None)
    if wrong is not None or not said:
        what = f'"{wrong[:SHOWN]}"' if wrong else "nothing"
        return GangTerms(None, problem=f"its pods say {what} in annotation {KUEUE_TOTAL_COUNT}")
    if len(set(counts.values())) > 1:
        differing = f"{min(counts.values())} and {max(counts.values())}"
        return GangTerms(None, problem=f"its pods say {differing} in annotation {KUEUE_TOTAL_COUNT}")
    total = next(iter(counts.values()))
    fast = any(
        view.pods.objects[position].metadata.annotations.pod_group_fast_admission == "true" for position in positions
    )
    return GangTerms(min(total, len(positions)) if fast else total)  # else it waits for all of them


def _atoi(text: str) -> int | None:
    """The number as Go's strconv.Atoi reads it, None for what it refuses."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else None


def coscheduling_group(view: Fork, key: GangKey) -> CoschedulingPodGroup | None:
    """The object that describes a gang of scheduler-plugins."""
    gang = gang_object(view, key._replace(project=GangProject.COSCHEDULING))
    return gang if isinstance(gang, CoschedulingPodGroup) else None


def gang_object(view: Fork, key: GangKey) -> GangObject | None:
    """The object that describes a gang, where there is one; Kueue has none."""
    kind = GROUP_KINDS.get(key.project)
    if kind is None:
        return None
    gang: GangObject | None = view.objects.index(("gangs", kind), _by_name, kind).get(key[1:])
    return gang


def _by_name(groups: Iterable[GangObject]) -> dict[tuple[str, str], GangObject]:
    return {(group.metadata.namespace, group.metadata.name): group for group in groups}


def _is_gated(info: PodInfo) -> bool:
    return bool(info.spec.scheduling_gates)
