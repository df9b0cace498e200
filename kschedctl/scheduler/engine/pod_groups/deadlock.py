"""Gangs of which a part has nodes and the rest waits, each for what another holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kschedctl.api.arrays import Position, Rows
from kschedctl.api.gangs import GangKey, GangProject
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.gangs import ended_pods, gang_pods, gang_terms
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group, state_of
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import AnyGroupKey

MOST_TRIED = 50
"""How many half-placed gangs are looked at."""


def is_placed(result: GroupResult) -> bool:
    """Whether the scheduler says that it places the group."""
    return result.placed


def is_half_placed(view: Fork, key: AnyGroupKey) -> bool:
    """Whether some pods of a gang have a node, but fewer than have to."""
    placed = len(_placed(view, key))
    return 0 < placed < _least(view, key) - _succeeded(view, key)


def deadlocked_with(
    cycle: PodGroupCycle, fits: Callable[[GroupResult], bool] = is_placed, *, own_groups: bool = True
) -> list[AnyGroupKey]:
    """The half-placed gangs in whose room this one, half placed itself, would fit; proved by a replay without each.

    ``fits``: whether a cycle gives enough pods a node. ``own_groups``: the scheduler places those of Kubernetes
    together; gangs of other projects count whoever does it.
    """
    view = cycle.view
    if not is_half_placed(view, cycle.key):
        return []
    gangs: list[AnyGroupKey] = [*(view.pods.by_group if own_groups else ()), *view.pods.by_gang]
    others = [key for key in gangs if key != cycle.key and is_half_placed(view, key)]
    return [key for key in others[:MOST_TRIED] if fits(cycle.run(_without(view, key), post_filter=False))]


def _least(view: Fork, key: AnyGroupKey) -> int:
    """How many pods of it have to have a node at once; 0 for what is no gang."""
    if isinstance(key, GangKey):
        return gang_terms(view, key).least or 0
    group = find_pod_group(view, key)
    gang = group.spec.scheduling_policy.gang if group else None
    return gang.min_count if gang else 0


def _succeeded(view: Fork, key: AnyGroupKey) -> int:
    """How many pods of another project's gang are done, which count as if they had a node."""
    ended = ended_pods(view).get(key) if isinstance(key, GangKey) else None
    return len(ended.succeeded) if ended and key[0] is not GangProject.COSCHEDULING else 0


def _placed(view: Fork, key: AnyGroupKey) -> Rows:
    return gang_pods(view, key).assigned if isinstance(key, GangKey) else state_of(view, key).scheduled


def _without(view: Fork, key: AnyGroupKey) -> Fork:
    less = view.fork()
    for position in _on_nodes(view, key):
        less.forget(position)
    return less


def _on_nodes(view: Fork, key: AnyGroupKey) -> Iterator[Position]:
    return (Position(position) for position in _placed(view, key).tolist() if view.node[position] >= 0)
