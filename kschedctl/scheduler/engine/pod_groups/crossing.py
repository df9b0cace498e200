"""Groups that share pods: one of which enough pods fit may wait for another, and that one for it.

A pod may be of a PodGroup of Kubernetes and of a gang that a plugin's Permit holds together. The PodGroup is tried by
itself, and keeps its nodes only if Permit succeeds for one of its pods (podGroupSchedulingDefaultAlgorithm in
pkg/scheduler/schedule_one_podgroup.go, v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.gangs import gang_plugin, gang_pods
from kschedctl.scheduler.framework import Code
from kschedctl.snapshot.pods import AnyGroupKey, group_key


class Crossing(NamedTuple):
    """``awaited``: the groups for which Permit lets the pods wait that have a node; ``apart``: those with which other
    pods of these are tried, so that neither group ever has the pods of both."""

    awaited: tuple[AnyGroupKey, ...] = ()
    apart: tuple[AnyGroupKey, ...] = ()


def crossing(cycle: PodGroupCycle, result: GroupResult, *, own_groups: bool) -> Crossing:
    """What a tried group crosses; ``own_groups``: the scheduler tries the pods of Kubernetes' own groups together."""
    waits = [member.position for member in result.members if member.permit and member.permit.code is Code.WAIT]
    if result.placed or result.waiting_on_preemption or not waits:
        return Crossing()
    awaited = _others(cycle, waits, {cycle.key}, own_groups)
    shared = [position for key in awaited if isinstance(key, GangKey) for position in _waiting(cycle, key)]
    apart = _others(cycle, shared, {cycle.key, *awaited}, own_groups)
    return Crossing(awaited, tuple(key for key in apart if not isinstance(key, GangKey)))


def _others(
    cycle: PodGroupCycle, positions: Iterable[Position], known: set[AnyGroupKey], own_groups: bool
) -> tuple[AnyGroupKey, ...]:
    """The groups of pods, but for those that are known."""
    plugin, others = gang_plugin(cycle.framework), dict[AnyGroupKey, None]()
    for position in positions:
        pod = cycle.view.pods.objects[position]
        keys = group_key(pod) if own_groups else None, plugin.gang(pod) if plugin else None
        others |= {key: None for key in keys if key is not None and key not in known}
    return tuple(others)


def _waiting(cycle: PodGroupCycle, key: GangKey) -> list[Position]:
    return [Position(position) for position in gang_pods(cycle.view, key).waiting.tolist()]
