"""Pods of groups in preemption: which of them preempt by themselves, and which are evicted together.

Upstream: pkg/scheduler/framework/preemption/types.go and util.go, PostFilter and PreEnqueue in
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go (v1.36; in v1.37 pods have the priority of their
group).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Counts, Position
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.pod_groups.hierarchy import EntityKey, iter_ancestors
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, find_group_priority, find_pod_group
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import GroupKey, group_key

AS_GROUPS = ByVersion(
    "whether pods of groups go by the priority of their group, each pod of a group that goes counted by budgets",
    (("", False), ("1.37", True)),
    "#137981, #140634",
)
POD, POD_GROUP, COMPOSITE = 1, 2, 3


class Victim(NamedTuple):
    """Pods that are evicted together."""

    pods: tuple[Position, ...]
    priority: int
    rank: int
    """POD, POD_GROUP or COMPOSITE."""
    start: int
    """When the first of them started."""

    @property
    def importance(self) -> tuple[int, int, int, int]:
        """Sort key, the most important first; equal ones keep their order."""
        return (-self.priority, -self.rank, -len(self.pods), self.start)


class GroupStanding(NamedTuple):
    """A group's part in preemption: its priority, and the group with which its pods are evicted together."""

    priority: int | None
    together: EntityKey | None


def find_victims(view: Fork, priority: int, release: KubeVersion) -> list[Victim]:
    """Return the pods of lower priority that have a node, and groups evicted as a whole, node after node.

    For the start of a group, v1.36 uses the first of its pods that it meets, and v1.37 the earliest.
    """
    as_groups = AS_GROUPS.at(release)
    standings = {key: find_standing(view, key, as_groups=as_groups) for key in view.pods.by_group}
    victims: dict[EntityKey | Position, Victim] = {}
    for position in _sort_by_node(view, find_priorities(view, standings), priority):
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
            victims[unit] = Victim((position,), own, _find_rank(key, standing), start)
    return list(victims.values())


def find_priorities(view: Fork, standings: Mapping[GroupKey, GroupStanding]) -> Counts:
    """Return the priority of each pod in preemption, (P,)."""
    own: Counts = view.pods.priority[view.pods.info]
    for key, standing in standings.items():
        if standing.priority is not None:
            own[view.pods.by_group.get(key, NO_MEMBERS)] = standing.priority
    return own


def find_standing(view: Fork, key: GroupKey, *, as_groups: bool) -> GroupStanding:
    """Return a group's part in preemption; pods of a missing group count by themselves.

    In a group of groups, the root's priority counts, and the highest group that is disrupted as a whole.
    """
    above = list(iter_ancestors(view, key))
    together = [at for at, group in above if group.spec.is_disrupted_together]
    if not above or not (as_groups or together):
        return GroupStanding(None, None)
    return GroupStanding(find_group_priority(above[-1][1], view), together[-1] if together else None)


def _find_rank(key: GroupKey | None, standing: GroupStanding) -> int:
    """Return what is evicted as a whole."""
    if standing.together is not None and standing.together.composite:
        return COMPOSITE
    return POD if key is None else POD_GROUP


def _sort_by_node(view: Fork, own: Counts, priority: int) -> list[Position]:
    """Return the positions of pods of lower priority that have a node, node after node, in order of arrival."""
    placed = np.flatnonzero((own < priority) & (view.node >= 0))
    positions: list[Position] = placed[np.lexsort((view.arrivals.place[placed], view.node[placed]))].tolist()
    return positions


NO_GROUP = "pod group for pod not found"
CONSTRAINED = "not eligible due to placement-based pod group scheduling limitation"
WORKLOAD_AWARE = "not eligible due to workload aware preemption enabled"


def find_member_ineligibility(pod: Pod, view: Fork, topology_aware: bool, workload_aware: bool) -> str:
    """Return why this pod does not preempt by itself, or an empty string."""
    key = group_key(pod)
    if key is not None and topology_aware:
        group = find_pod_group(view, key)
        if group is None or group.spec.scheduling_constraints is not None:
            return NO_GROUP if group is None else CONSTRAINED
    return WORKLOAD_AWARE if key is not None and workload_aware else ""


def preemptor_key(pod: Pod, workload_aware: bool) -> str:
    """Return the name under which a pod's victims are being evicted; with the gate, that of its group."""
    key = group_key(pod) if workload_aware else None
    return f"PodGroup {key[0]}/{key[1]}" if key else pod.key
