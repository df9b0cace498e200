"""Whom a group can preempt: pods of lower priority, and groups that go as a whole.

Upstream: pkg/scheduler/framework/preemption/types.go and util.go (v1.36; and v1.37, where pods go by the priority of
their group).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Counts, Position
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.scheduler.engine.pod_groups.hierarchy import EntityKey, ancestry
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, group_priority
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import GroupKey, group_key

AS_GROUPS = ByVersion(
    "whether pods of groups go by the priority of their group, each pod of a group that goes counted by budgets",
    (("", False), ("1.37", True)),
    "#137981, #140634",
)
POD, POD_GROUP, COMPOSITE = 1, 2, 3


class Victim(NamedTuple):
    """Pods that go together. ``rank``: what they are, a group of groups most; ``start``: when the first started."""

    pods: tuple[Position, ...]
    priority: int
    rank: int
    start: int

    @property
    def importance(self) -> tuple[int, int, int, int]:
        """The most important is the smallest; among equals the order stays."""
        return (-self.priority, -self.rank, -len(self.pods), self.start)


class GroupStanding(NamedTuple):
    """What a group is to those that preempt: with whom its pods go, themselves where that is None."""

    priority: int | None
    together: EntityKey | None


def victims_below(view: Fork, priority: int, release: KubeVersion) -> list[Victim]:
    """The pods of lower priority that have a node, and the groups that go as a whole, node after node.

    Of a group 1.36 takes the start from the first of its pods that it meets, 1.37 the earliest.
    """
    as_groups = AS_GROUPS.at(release)
    standings = {key: standing_of(view, key, as_groups=as_groups) for key in view.pods.by_group}
    victims: dict[EntityKey | Position, Victim] = {}
    for position in _by_node(view, priorities(view, standings), priority):
        info = view.pods.infos[view.pods.info[position]]
        key, start = group_key(info.pod), int(view.pods.start[position])
        standing = standings[key] if key else GroupStanding(None, None)
        unit: EntityKey | Position = standing.together or position
        before = victims.get(unit)
        if before is not None:
            earliest = min(start, before.start) if as_groups else before.start
            victims[unit] = before._replace(pods=(*before.pods, position), start=earliest)
        else:
            own = info.priority if standing.priority is None else standing.priority
            victims[unit] = Victim((position,), own, _rank(key, standing), start)
    return list(victims.values())


def priorities(view: Fork, standings: Mapping[GroupKey, GroupStanding]) -> Counts:
    """(P,): by which the pods go."""
    own: Counts = view.pods.priority[view.pods.info]
    for key, standing in standings.items():
        if standing.priority is not None:
            own[view.pods.by_group.get(key, NO_MEMBERS)] = standing.priority
    return own


def standing_of(view: Fork, key: GroupKey, *, as_groups: bool) -> GroupStanding:
    """Of a group whose object is missing the pods go as if they were of none.

    With groups of groups it is the root whose priority counts, and the highest that goes as a whole.
    """
    above = list(ancestry(view, key))
    together = [at for at, group in above if group.spec.is_disrupted_together]
    if not above or not (as_groups or together):
        return GroupStanding(None, None)
    return GroupStanding(group_priority(above[-1][1], view), together[-1] if together else None)


def _rank(key: GroupKey | None, standing: GroupStanding) -> int:
    if standing.together is not None and standing.together.composite:
        return COMPOSITE
    return POD if key is None else POD_GROUP


def _by_node(view: Fork, own: Counts, priority: int) -> list[Position]:
    """The pods that have a node and go, node after node, on each as they came there."""
    placed = np.flatnonzero((own < priority) & (view.node >= 0))
    positions: list[Position] = placed[np.lexsort((view.arrivals.place[placed], view.node[placed]))].tolist()
    return positions
