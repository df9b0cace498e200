"""Gangs of which a part has nodes and the rest waits, each for what another holds."""

from __future__ import annotations

from kschedctl.api.arrays import Position
from kschedctl.scheduler.pod_groups.cycle import PodGroupCycle
from kschedctl.scheduler.pod_groups.state import find_pod_group, state_of
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import GroupKey

MOST_TRIED = 50
"""Of more half-placed gangs the others are not looked at."""


def is_half_placed(view: Fork, key: GroupKey) -> bool:
    """Whether some pods of a gang have a node, but fewer than have to."""
    group = find_pod_group(view, key)
    gang = group.spec.scheduling_policy.gang if group else None
    return gang is not None and 0 < len(state_of(view, key).scheduled) < gang.min_count


def deadlocked_with(cycle: PodGroupCycle) -> list[GroupKey]:
    """The half-placed gangs in whose room this one, half placed itself, would fit; proved by a replay without each."""
    view = cycle.view
    if not is_half_placed(view, cycle.key):
        return []
    others = [key for key in view.pods.by_group if key != cycle.key and is_half_placed(view, key)]
    return [key for key in others[:MOST_TRIED] if cycle.run(_without(view, key), post_filter=False).placed]


def _without(view: Fork, key: GroupKey) -> Fork:
    less = view.fork()
    for position in state_of(view, key).scheduled.tolist():
        if view.node[position] >= 0:
            less.forget(Position(position))
    return less
