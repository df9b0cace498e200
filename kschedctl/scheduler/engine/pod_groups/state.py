"""The state of a pod group: its object, and which of its pods have a node.

Upstream: pkg/scheduler/backend/cache/podgroupstate.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Rows
from kschedctl.api.kinds import find_first_minor
from kschedctl.api.objects import AnyGroup, PodGroup
from kschedctl.api.priority import find_priority_class
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import AnyGroupKey, GroupKey

NO_MEMBERS = np.empty(0, np.int64)


class PodGroupState(NamedTuple):
    """Positions of the pods that the scheduler counts: waiting pods, and assumed or bound pods."""

    unscheduled: Rows
    scheduled: Rows

    @property
    def size(self) -> int:
        """Number of pods that the scheduler counts."""
        return len(self.unscheduled) + len(self.scheduled)


def schedules_groups_together(gates: FeatureGates) -> bool:
    """Return whether the scheduler places the pods of a PodGroup together.

    This requires a version that has PodGroups, and the feature gate GenericWorkload.
    """
    return gates.minor >= find_first_minor("PodGroup") and gates.enabled("GenericWorkload")


def find_pod_group(view: Fork, key: AnyGroupKey) -> PodGroup | None:
    """Return the PodGroup with this namespace and name, or None if it does not exist.

    The key of another project's gang gives None, because such a gang is not a PodGroup.
    """
    pod_group: PodGroup | None = view.objects.index("pod groups", _index_by_key, "PodGroup").get(key)
    return pod_group


def get_group_priority(group: AnyGroup, view: Fork) -> int:
    """Return the priority of a group from its spec or its PriorityClass.

    Return 0 if the group has neither, or if the class does not exist.
    """
    if group.spec.priority is not None or not group.spec.priority_class_name:
        return group.spec.priority or 0
    class_ = find_priority_class(group.spec.priority_class_name, view.cluster.priority_classes)
    return class_.value if class_ else 0


def may_group_be_unread(view: Fork, key: AnyGroupKey) -> bool:
    """Return whether the group was not found but may exist, because not all PodGroups were read."""
    *_, namespace, _ = key  # keys of gangs also name the project
    return find_pod_group(view, key) is None and view.cluster.find_gap("PodGroup", namespace) is not None


def find_group_state(view: Fork, key: GroupKey) -> PodGroupState:
    """Return the waiting and the placed pods of a group. Waiting pods that no profile schedules are left out.

    Pods that have not come yet or are gone for good are left out as well. While preemption is tried for the group, its
    pods that would be evicted count as placed, because upstream's selectVictimsOnDomain removes them only from
    NodeInfos.
    """
    positions = view.pods.positions_by_group.get(key, NO_MEMBERS)
    if view.absent is not None:  # some pods have not come yet or are gone for good
        positions = positions[~view.absent[positions]]
    has_node = mask_placed_pods(view, positions)
    if view.group_since is not None:  # in the group's cycle, victims have already left their nodes
        has_node |= view.mask_placed_before_group()[positions]
    without_node = positions[~has_node]
    served_mask = [
        view.pods.get_info(position).spec.scheduler_name in view.settings.served_profiles for position in without_node
    ]
    return PodGroupState(without_node[np.array(served_mask, np.bool_)], positions[has_node])


def find_completing_pod(view: Fork, key: AnyGroupKey, arrivals: Sequence[int]) -> Position | None:
    """Find the pod that completed a gang. Return None if the gang is not complete or the group is not a gang.

    `arrivals` has the positions of the gang's pods in order of arrival. GangScheduling keeps the earlier pods out of
    the queue, so the completing pod enters the active queue first.
    """
    group = find_pod_group(view, key)
    gang = group.spec.scheduling_policy.gang if group else None
    if gang is None or not 0 < gang.min_count <= len(arrivals):
        return None
    return Position(arrivals[gang.min_count - 1])


def mask_placed_pods(view: Fork, positions: Rows) -> Bools:
    """Return a mask over `positions` of the pods that are assumed or bound.

    A pod bound to a node that does not exist counts too.
    """
    return (view.node[positions] >= 0) | _mask_bound_to_unknown_nodes(view, positions)


def _mask_bound_to_unknown_nodes(view: Fork, positions: Rows) -> Bools:
    """Return a mask over `positions` of the pods that were bound to a node outside the snapshot."""
    objects, snapshot = view.pods.objects, view.snapshot
    names = objects.table.node
    has_name = np.array([bool(name) for name in names.values], np.bool_)
    rows_in_table = objects.rows[positions]
    bound = has_name[names.codes[rows_in_table]]
    # A pod created after the snapshot has no entry there, so its position is clipped to a valid one.
    positions_in_snapshot = np.minimum(positions, len(snapshot.node) - 1)
    return bound & (snapshot.node[positions_in_snapshot] < 0)


def _index_by_key(groups: Iterable[PodGroup]) -> dict[AnyGroupKey, PodGroup]:
    """Index PodGroups by namespace and name."""
    return {(group.metadata.namespace, group.metadata.name): group for group in groups}
