"""Pods of groups in preemption: which of them preempt on their own, and which are evicted together.

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
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, find_pod_group, get_group_priority
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import GroupKey, get_group_key

AS_GROUPS = ByVersion(
    "victims in pod groups are ordered by group priority", (("", False), ("1.37", True)), "#137981, #140634"
)
CHARGES_ALL_PODS = ByVersion(
    "each pod of an evicted group counts against the pod's PodDisruptionBudget",
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
        """A sort key that puts the most important victims first. Equal victims keep their order."""
        return (-self.priority, -self.rank, -len(self.pods), self.start)


class PreemptionRole(NamedTuple):
    """A group's role in preemption."""

    priority: int | None
    """The priority of its pods; None if each pod has its own."""
    evicted_unit: EntityKey | None
    """The group that is evicted as a whole with these pods; None if pods are evicted one by one."""


ROLE_OF_SINGLE_PODS = PreemptionRole(priority=None, evicted_unit=None)


def find_potential_victims(view: Fork, priority: int, release: KubeVersion) -> list[Victim]:
    """Return what a preemptor with this priority may evict: single pods, and groups that are evicted as a whole.

    Only pods with a node and a lower priority are included. In v1.36, the start time of a group is that of its first
    pod in node order. In v1.37, it is the earliest start time of its pods.
    """
    as_groups = AS_GROUPS.at(release)
    roles = {key: find_preemption_role(view, key, as_groups=as_groups) for key in view.pods.positions_by_group}
    priorities = find_preemption_priorities(view, roles)

    # Collect the pods that are evicted together: those of a group, or a single pod.
    pods_by_unit: dict[EntityKey | Position, list[Position]] = {}
    for position in _list_less_important_pods(view, priorities, priority):
        role = _get_role(get_group_key(view.pods.get_info(position).pod), roles)
        unit: EntityKey | Position = role.evicted_unit or position
        pods_by_unit.setdefault(unit, []).append(position)

    # The first pod of each unit stands for its priority and rank.
    victims = []
    for pods in pods_by_unit.values():
        first_info = view.pods.get_info(pods[0])
        key = get_group_key(first_info.pod)
        role = _get_role(key, roles)
        starts = view.pods.start[pods].tolist()
        victims.append(
            Victim(
                tuple(pods),
                priority=first_info.priority if role.priority is None else role.priority,
                rank=_get_rank(key, role),
                start=min(starts) if as_groups else starts[0],
            )
        )
    return victims


def find_preemption_priorities(view: Fork, roles: Mapping[GroupKey, PreemptionRole]) -> Counts:
    """Return each pod's priority in preemption: the priority of its group's role, or its own priority."""
    priorities: Counts = view.pods.pod_priorities  # a new array, so the pods' own priorities stay as they are
    for key, role in roles.items():
        if role.priority is not None:
            priorities[view.pods.positions_by_group.get(key, NO_MEMBERS)] = role.priority
    return priorities


def find_preemption_role(view: Fork, key: GroupKey, *, as_groups: bool) -> PreemptionRole:
    """Return a group's role in preemption. If the group does not exist, its pods are treated as single pods.

    In a tree of groups, the priority is the root's, and the highest group that is disrupted as a whole is evicted. If
    `as_groups` is false, a group has a role only if it or a group above it is disrupted as a whole.
    """
    ancestors = list(iter_ancestors(view, key))
    disrupted_together = [key_above for key_above, group in ancestors if group.spec.is_disrupted_together]
    if not ancestors or not (as_groups or disrupted_together):
        return ROLE_OF_SINGLE_PODS
    _, root_group = ancestors[-1]
    highest_together = disrupted_together[-1] if disrupted_together else None
    return PreemptionRole(get_group_priority(root_group, view), highest_together)


def _get_role(key: GroupKey | None, roles: Mapping[GroupKey, PreemptionRole]) -> PreemptionRole:
    """Return the role of a pod's group. A pod without a group (None) has its own priority and is evicted alone."""
    return ROLE_OF_SINGLE_PODS if key is None else roles[key]


def _get_rank(key: GroupKey | None, role: PreemptionRole) -> int:
    """Return the rank of a victim by what is evicted as a whole: a pod, a PodGroup or a CompositePodGroup."""
    if role.evicted_unit is not None and role.evicted_unit.composite:
        return COMPOSITE
    return POD if key is None else POD_GROUP


def _list_less_important_pods(view: Fork, priorities: Counts, priority: int) -> list[Position]:
    """Return the pods on nodes that have a lower priority, node after node, in order of arrival."""
    placed = np.flatnonzero((priorities < priority) & (view.node >= 0))
    positions: list[Position] = placed[np.lexsort((view.arrivals.place[placed], view.node[placed]))].tolist()
    return positions


NO_GROUP = "pod group for pod not found"
CONSTRAINED = "not eligible due to placement-based pod group scheduling limitation"
WORKLOAD_AWARE = "not eligible due to workload aware preemption enabled"


def find_member_ineligibility(pod: Pod, view: Fork, *, topology_aware: bool, workload_aware: bool) -> str:
    """Return the reason why a pod may not preempt separately from its group, or "" if it may.

    A pod without a group always may. With `topology_aware`, a pod may not if its group does not exist or has scheduling
    constraints. With `workload_aware`, no pod of a group may.
    """
    key = get_group_key(pod)
    if key is None:
        return ""
    if topology_aware:
        group = find_pod_group(view, key)
        if group is None:
            return NO_GROUP
        if group.spec.scheduling_constraints is not None:
            return CONSTRAINED
    return WORKLOAD_AWARE if workload_aware else ""


def get_preemptor_key(pod: Pod, *, workload_aware: bool) -> str:
    """Return the key of the preemptor for which the victims of a pod are evicted.

    With workload-aware preemption, this is the pod's group if it has one. Otherwise, it is the pod.
    """
    key = get_group_key(pod) if workload_aware else None
    return f"PodGroup {key[0]}/{key[1]}" if key else pod.key
