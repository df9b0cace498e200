"""What the scheduler knows of a pod group: its object, and which of its pods have a node.

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
    """The positions of the pods that the scheduler counts: those that wait, and those that are assumed or bound."""

    unscheduled: Rows
    scheduled: Rows

    @property
    def size(self) -> int:
        return len(self.unscheduled) + len(self.scheduled)


def placed_in_groups(gates: FeatureGates) -> bool:
    """Whether pods of a group are placed together: by gate GenericWorkload, in versions that have PodGroups."""
    return gates.minor >= find_first_minor("PodGroup") and gates.enabled("GenericWorkload")


def find_pod_group(view: Fork, key: AnyGroupKey) -> PodGroup | None:
    """The object of that namespace and name; None also for groups of other projects."""
    pod_group: PodGroup | None = view.objects.index("pod groups", _by_key, "PodGroup").get(key)
    return pod_group


def group_priority(group: AnyGroup, view: Fork) -> int:
    """The group's own; 0 for one that says nothing of it."""
    if group.spec.priority is not None or not group.spec.priority_class_name:
        return group.spec.priority or 0
    class_ = find_priority_class(group.spec.priority_class_name, view.cluster.priority_classes)
    return class_.value if class_ else 0


def is_unread(view: Fork, key: AnyGroupKey) -> bool:
    """Whether the group may be there all the same, since not all PodGroups were read."""
    return find_pod_group(view, key) is None and view.cluster.gap("PodGroup", key[-2]) is not None


def state_of(view: Fork, key: GroupKey) -> PodGroupState:
    """The state of a group now. Pods without a node that no profile serves are not known to the scheduler.

    Pods that are taken from their nodes to see whether a group that preempts fits then count as if they were there:
    upstream's selectVictimsOnDomain takes them out of NodeInfos alone.
    """
    positions = view.pods.by_group.get(key, NO_MEMBERS)
    if view.absent is not None:
        positions = positions[~view.absent[positions]]
    scheduled = has_node(view, positions)
    if view.group_since is not None:
        scheduled |= view.placed_before()[positions]
    waiting = positions[~scheduled]
    served = [view.pods.infos[number].spec.scheduler_name in view.settings.served for number in view.pods.info[waiting]]
    return PodGroupState(waiting[np.array(served, np.bool_)], positions[scheduled])


def completing(view: Fork, key: AnyGroupKey, came: Sequence[int]) -> Position | None:
    """The pod of a gang with which it was complete, in the order in which they came, None where none was.

    Those before it were kept out of the queue by GangScheduling, so that it entered the active queue first.
    """
    group = find_pod_group(view, key)
    gang = group.spec.scheduling_policy.gang if group else None
    if gang is None or not 0 < gang.min_count <= len(came):
        return None
    return Position(came[gang.min_count - 1])


def has_node(view: Fork, positions: Rows) -> Bools:
    """(M,): assumed or bound, also to a node that is not among the nodes."""
    return (view.node[positions] >= 0) | _bound_elsewhere(view, positions)


def _bound_elsewhere(view: Fork, positions: Rows) -> Bools:
    """(M,): bound to a node that is not among the nodes."""
    objects, snapshot = view.pods.objects, view.snapshot
    names = objects.table.node
    known = np.array([bool(name) for name in names.values], np.bool_)
    bound = known[names.codes[objects.rows[positions]]]
    return bound & (snapshot.node[np.minimum(positions, len(snapshot.node) - 1)] < 0)


def _by_key(groups: Iterable[PodGroup]) -> dict[AnyGroupKey, PodGroup]:
    return {(group.metadata.namespace, group.metadata.name): group for group in groups}
