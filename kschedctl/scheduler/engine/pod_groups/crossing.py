"""Groups that share pods, so that one may wait for another, which waits for the first.

A pod may belong to a PodGroup of Kubernetes and to a gang that a plugin's Permit holds together. The PodGroup is tried
by itself, and keeps its nodes only if Permit succeeds for one of its pods (podGroupSchedulingDefaultAlgorithm in
pkg/scheduler/schedule_one_podgroup.go, v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.gangs import find_gang_plugin, find_gang_pods
from kschedctl.scheduler.framework import Code
from kschedctl.snapshot.pods import AnyGroupKey, group_key


class Crossing(NamedTuple):
    """Groups that block each other."""

    awaited: tuple[AnyGroupKey, ...] = ()
    """Groups for which Permit makes placed pods wait."""
    apart: tuple[AnyGroupKey, ...] = ()
    """Groups with which other pods of the awaited ones are tried, so that neither group has the pods of both."""


def find_crossing(cycle: PodGroupCycle, result: GroupResult, *, own_groups: bool) -> Crossing:
    """Return the groups that a tried group waits for; `own_groups`: the scheduler places PodGroups together."""
    waits = [member.position for member in result.members if member.permit and member.permit.code is Code.WAIT]
    if result.placed or result.waiting_on_preemption or not waits:
        return Crossing()
    awaited = _find_groups(cycle, waits, {cycle.key}, own_groups)
    shared = [position for key in awaited if isinstance(key, GangKey) for position in _find_waiting(cycle, key)]
    apart = _find_groups(cycle, shared, {cycle.key, *awaited}, own_groups)
    return Crossing(awaited, tuple(key for key in apart if not isinstance(key, GangKey)))


def _find_groups(
    cycle: PodGroupCycle, positions: Iterable[Position], known: set[AnyGroupKey], own_groups: bool
) -> tuple[AnyGroupKey, ...]:
    """Return the groups of the pods, without known ones."""
    plugin, others = find_gang_plugin(cycle.framework), dict[AnyGroupKey, None]()
    for position in positions:
        pod = cycle.view.pods.objects[position]
        keys = group_key(pod) if own_groups else None, plugin.gang(pod) if plugin else None
        others |= {key: None for key in keys if key is not None and key not in known}
    return tuple(others)


def _find_waiting(cycle: PodGroupCycle, key: GangKey) -> list[Position]:
    """Return the positions of a gang's waiting pods."""
    return [Position(position) for position in find_gang_pods(cycle.view, key).waiting.tolist()]
