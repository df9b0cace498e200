"""Groups that wait for each other: partly placed gangs that hold each other's nodes, and groups that share pods.

A pod may belong to a PodGroup of Kubernetes and to a gang that a plugin's Permit holds together. The PodGroup is tried
on its own, and keeps its nodes only if Permit succeeds for one of its pods (podGroupSchedulingDefaultAlgorithm in
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
    get_gang_minimum,
)
from kschedctl.scheduler.engine.pod_groups.state import find_group_state, find_pod_group
from kschedctl.scheduler.framework import Code
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import AnyGroupKey, get_group_key

MAX_TRIED = 50
"""Maximum number of half-placed gangs that are tried."""


def is_placed(result: GroupResult) -> bool:
    """Return whether the scheduler would place the group."""
    return result.placed


def is_half_placed(view: Fork, key: AnyGroupKey) -> bool:
    """Return whether some pods of a gang have a node, but fewer than the gang needs."""
    placed = len(_find_placed_pods(view, key))
    return 0 < placed < _get_min_pod_count(view, key) - _count_succeeded_pods(view, key)


def find_blocking_gangs(
    cycle: PodGroupCycle, fits: Callable[[GroupResult], bool] = is_placed, *, includes_pod_groups: bool = True
) -> list[AnyGroupKey]:
    """Return the partly placed gangs that keep this gang from being placed, or [] if this gang is not partly placed.

    For each of at most MAX_TRIED other partly placed gangs, the cycle is replayed without the pods of that gang. The
    other gang is returned if this gang then fits. `fits` decides whether enough pods are placed. With
    `includes_pod_groups`, PodGroups of Kubernetes are considered too, because the scheduler places their pods together.
    Gangs of other projects are always considered.
    """
    view = cycle.view
    if not is_half_placed(view, cycle.key):
        return []
    gangs: list[AnyGroupKey] = [*view.pods.positions_by_gang]
    if includes_pod_groups:
        gangs = [*view.pods.positions_by_group, *gangs]
    half_placed = [key for key in gangs if key != cycle.key and is_half_placed(view, key)]

    blocking = []
    for key in half_placed[:MAX_TRIED]:
        result = cycle.run(_remove_gang(view, key), post_filter=False)
        if fits(result):
            blocking.append(key)
    return blocking


def _get_min_pod_count(view: Fork, key: AnyGroupKey) -> int:
    """Return how many pods of a gang need nodes at once, or 0 if the number is unknown or the group is not a gang."""
    if isinstance(key, GangKey):
        return get_gang_minimum(view, key).least or 0
    group = find_pod_group(view, key)
    gang = group.spec.scheduling_policy.gang if group else None
    return gang.min_count if gang else 0


def _count_succeeded_pods(view: Fork, key: AnyGroupKey) -> int:
    """Return how many pods of a gang have succeeded and still count as placed.

    Return 0 for PodGroups of Kubernetes and of coscheduling, which do not count succeeded pods.
    """
    if not isinstance(key, GangKey) or key.project is GangProject.COSCHEDULING:
        return 0
    ended = find_ended_pods(view).get(key)
    return len(ended.succeeded) if ended else 0


def _find_placed_pods(view: Fork, key: AnyGroupKey) -> Rows:
    """Return the positions of the gang's pods that have a node."""
    return find_gang_pods(view, key).assigned if isinstance(key, GangKey) else find_group_state(view, key).scheduled


def _remove_gang(view: Fork, key: AnyGroupKey) -> Fork:
    """Return a fork in which the gang's pods have left their nodes."""
    fork = view.fork()
    for position in _iter_pods_on_known_nodes(view, key):
        fork.forget(position)
    return fork


def _iter_pods_on_known_nodes(view: Fork, key: AnyGroupKey) -> Iterator[Position]:
    """Yield the gang's placed pods. Pods bound to a node that the cluster does not have are left out."""
    return (Position(position) for position in _find_placed_pods(view, key).tolist() if view.node[position] >= 0)


class Crossing(NamedTuple):
    """Groups that wait for each other because they share pods."""

    awaited: tuple[AnyGroupKey, ...] = ()
    """Groups for which Permit makes placed pods wait."""
    apart: tuple[AnyGroupKey, ...] = ()
    """Groups that place other pods of the awaited groups separately, so that neither has the pods of both."""


def find_groups_sharing_pods(cycle: PodGroupCycle, result: GroupResult, *, includes_pod_groups: bool) -> Crossing:
    """Find the groups that a tried group waits for, and the PodGroups that compete for their pods.

    The tried group waits for the gangs of its pods that wait at Permit. A PodGroup competes with such a gang if it
    contains a pod of the gang that has no node. Nothing is found if the group fits, waits for preemption, or has no pod
    that waits at Permit. Set `includes_pod_groups` if the scheduler places the pods of Kubernetes' PodGroups together.
    """
    waiting_at_permit = [
        member.position for member in result.members if member.permit and member.permit.code is Code.WAIT
    ]
    if result.placed or result.waiting_on_preemption or not waiting_at_permit:
        return Crossing()

    # The pods that the awaited gangs lack may belong to other PodGroups.
    awaited = _find_groups_of_pods(
        cycle, waiting_at_permit, excluded={cycle.key}, includes_pod_groups=includes_pod_groups
    )
    missing_pods: list[Position] = []
    for key in awaited:
        if isinstance(key, GangKey):
            missing_pods += _find_pods_without_node(cycle, key)
    competing = _find_groups_of_pods(
        cycle, missing_pods, excluded={cycle.key, *awaited}, includes_pod_groups=includes_pod_groups
    )
    return Crossing(awaited, tuple(key for key in competing if not isinstance(key, GangKey)))


def _find_groups_of_pods(
    cycle: PodGroupCycle, positions: Iterable[Position], excluded: set[AnyGroupKey], *, includes_pod_groups: bool
) -> tuple[AnyGroupKey, ...]:
    """Return the keys of the groups of these pods, without the excluded ones.

    The groups are those of the profile's gang plugin, if it has one, and with `includes_pod_groups` also the PodGroups
    of Kubernetes.
    """
    plugin = find_gang_plugin(cycle.framework)
    groups: dict[AnyGroupKey, None] = {}
    for position in positions:
        pod = cycle.view.pods.objects[position]
        pod_group_key = get_group_key(pod) if includes_pod_groups else None
        gang_key = plugin.find_gang(pod) if plugin else None
        for key in (pod_group_key, gang_key):
            if key is not None and key not in excluded:
                groups[key] = None
    return tuple(groups)


def _find_pods_without_node(cycle: PodGroupCycle, key: GangKey) -> list[Position]:
    """Return the positions of the pods of a gang that have no node."""
    return [Position(position) for position in find_gang_pods(cycle.view, key).waiting.tolist()]
