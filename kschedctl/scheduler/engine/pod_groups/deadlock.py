"""Groups that wait for each other: partly placed gangs that hold each other's nodes, and groups that share pods.

A pod may belong to a PodGroup of Kubernetes and to a gang that a plugin's Permit holds together. The PodGroup is tried
by itself, and keeps its nodes only if Permit succeeds for one of its pods (podGroupSchedulingDefaultAlgorithm in
pkg/scheduler/schedule_one_podgroup.go, v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kschedctl.api.arrays import Position, Rows
from kschedctl.api.gangs import GangKey, GangProject
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.gangs import (
    find_ended_pods,
    find_gang_plugin,
    find_gang_pods,
    find_gang_terms,
)
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group, find_state
from kschedctl.scheduler.framework import Code
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import AnyGroupKey, group_key

MAX_TRIED = 50
"""Maximum number of half-placed gangs that are tried."""


def is_placed(result: GroupResult) -> bool:
    """Return whether the scheduler would place the group."""
    return result.placed


def is_half_placed(view: Fork, key: AnyGroupKey) -> bool:
    """Return whether some pods of a gang have a node, but fewer than needed."""
    placed = len(_find_placed(view, key))
    return 0 < placed < _min_count(view, key) - _count_succeeded(view, key)


def find_deadlocked_gangs(
    cycle: PodGroupCycle, fits: Callable[[GroupResult], bool] = is_placed, *, own_groups: bool = True
) -> list[AnyGroupKey]:
    """Return the half-placed gangs without which this half-placed gang would fit, as replays without each show.

    `fits` decides whether a cycle places enough pods. `own_groups`: the scheduler places Kubernetes' PodGroups
    together; gangs of other projects always count.
    """
    view = cycle.view
    if not is_half_placed(view, cycle.key):
        return []
    gangs: list[AnyGroupKey] = [*(view.pods.by_group if own_groups else ()), *view.pods.by_gang]
    others = [key for key in gangs if key != cycle.key and is_half_placed(view, key)]
    return [key for key in others[:MAX_TRIED] if fits(cycle.run(_without_gang(view, key), post_filter=False))]


def _min_count(view: Fork, key: AnyGroupKey) -> int:
    """Return how many pods of a gang need nodes at once; 0 if it is no gang."""
    if isinstance(key, GangKey):
        return find_gang_terms(view, key).least or 0
    group = find_pod_group(view, key)
    gang = group.spec.scheduling_policy.gang if group else None
    return gang.min_count if gang else 0


def _count_succeeded(view: Fork, key: AnyGroupKey) -> int:
    """Count another project's pods that have succeeded, which count as placed."""
    ended = find_ended_pods(view).get(key) if isinstance(key, GangKey) else None
    return len(ended.succeeded) if ended and key[0] is not GangProject.COSCHEDULING else 0


def _find_placed(view: Fork, key: AnyGroupKey) -> Rows:
    """Return the positions of the gang's pods that have a node."""
    return find_gang_pods(view, key).assigned if isinstance(key, GangKey) else find_state(view, key).scheduled


def _without_gang(view: Fork, key: AnyGroupKey) -> Fork:
    """Return a fork in which the gang's pods have left their nodes."""
    less = view.fork()
    for position in _iter_placed(view, key):
        less.forget(position)
    return less


def _iter_placed(view: Fork, key: AnyGroupKey) -> Iterator[Position]:
    """Yield the gang's pods that are on known nodes."""
    return (Position(position) for position in _find_placed(view, key).tolist() if view.node[position] >= 0)


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
