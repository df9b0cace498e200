"""Pods that are bound only together with others: the plugin that rejects one of them, and the state of the group."""

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
    """The results of gangs and pod groups, each tried once for all its pods."""

    gangs: dict[GangKey, TriedGang] = field(default_factory=dict)
    groups: dict[GroupKey, PodGroupReport] = field(default_factory=dict)


class GangResult(NamedTuple):
    """The gang with which a pod is bound."""

    report: PodGroupReport
    failure: MemberFailure | None = None
    """Why the pod was not bound; None if it was."""


def try_gang(scheduler: Scheduler, framework: Framework, pod: Pod, known: TriedGroups) -> GangResult | None:
    """Return the result of the pod with its gang, or None for a pod without a gang."""
    plugin = find_gang_plugin(framework)
    key = plugin.gang(pod) if plugin else None
    if key is None or find_gangs(pod)[0] != key:
        return None
    gang = known.gangs.get(key) or place_gang(scheduler, framework, pod)
    if gang is None:
        return None
    if scheduler.view.pods.find_position(pod.key) is not None:  # no manifest, which is of no gang but in its own answer
        known.gangs[key] = gang
    return GangResult(gang.report, gang.failures.get(pod.key))


def try_pod_group(scheduler: Scheduler, framework: Framework, pod: Pod, known: TriedGroups) -> PodGroupReport | None:
    """Return the pod group with which the pod is tried, or None for a pod that is tried alone."""
    key = group_key(pod)
    there = scheduler.view.pods.find_position(pod.key) is not None
    if key is not None and there and key in known.groups:
        return known.groups[key]
    report = report_group(scheduler, framework, pod)
    if report is not None and key is not None and there:
        known.groups[key] = report
    return report


def find_member(group: PodGroupReport, pod: Pod) -> MemberReport | None:
    return next((member for member in group.members if member.pod == pod.key), None)


def is_placed(group: PodGroupReport, pod: Pod) -> bool:
    """Return whether the pod gets a node with its group."""
    member = find_member(group, pod)
    return group.verdict == PLACED and member is not None and member.verdict == PLACED
