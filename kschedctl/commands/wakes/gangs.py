"""Scheduling attempts of pods that are only bound together with their gang or pod group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.gangs import GangKey, find_gangs
from kschedctl.api.objects import Pod
from kschedctl.commands.explain.gang import TriedGang, place_gang
from kschedctl.commands.explain.pod_group import PLACED, report_group
from kschedctl.commands.explain.pod_group_report import MemberReport, PodGroupReport
from kschedctl.scheduler.engine.pod_groups.gangs import find_gang_plugin
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pods import GroupKey, group_key


@dataclass
class TriedGroups:
    """A cache of the gangs and pod groups that were tried, so that each is tried only once."""

    gangs: dict[GangKey, TriedGang] = field(default_factory=dict)
    groups: dict[GroupKey, PodGroupReport] = field(default_factory=dict)


class GangResult(NamedTuple):
    """The result of trying a pod's gang."""

    report: PodGroupReport
    failure: MemberFailure | None = None
    """Why the pod was not placed; None if it was."""


def try_gang(scheduler: Scheduler, framework: Framework, pod: Pod, cache: TriedGroups) -> GangResult | None:
    """Try the pod's gang, unless `cache` has its result. Return None for a pod without a gang."""
    plugin = find_gang_plugin(framework)
    key = plugin.gang(pod) if plugin else None
    if key is None or find_gangs(pod)[0] != key:
        return None
    gang = cache.gangs.get(key) or place_gang(scheduler, framework, pod)
    if gang is None:
        return None
    if scheduler.view.pods.find_position(pod.key) is not None:  # no manifest, which is of no gang but in its own answer
        cache.gangs[key] = gang
    return GangResult(gang.report, gang.failures.get(pod.key))


def try_pod_group(scheduler: Scheduler, framework: Framework, pod: Pod, cache: TriedGroups) -> PodGroupReport | None:
    """Try the pod's group, unless `cache` has its result. Return None for a pod without a group."""
    key = group_key(pod)
    is_stored = scheduler.view.pods.find_position(pod.key) is not None
    if key is not None and is_stored and key in cache.groups:
        return cache.groups[key]
    report = report_group(scheduler, framework, pod)
    if report is not None and key is not None and is_stored:
        cache.groups[key] = report
    return report


def find_member(group: PodGroupReport, pod: Pod) -> MemberReport | None:
    """Find the pod's entry in the report on its group."""
    return next((member for member in group.members if member.pod == pod.key), None)


def is_placed(group: PodGroupReport, pod: Pod) -> bool:
    """Return whether the group is placed and the pod with it."""
    member = find_member(group, pod)
    return group.verdict == PLACED and member is not None and member.verdict == PLACED
