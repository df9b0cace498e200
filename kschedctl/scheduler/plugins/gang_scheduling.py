"""GangScheduling: pods of a gang wait for each other before they enter the queue and before they are bound.

With gate CompositePodGroup, a pod waits until all groups of its group's tree are ready. For such a tree, Permit has
nothing to decide, because PlacementFeasible has decided before. 1.38 drops Permit (#141182).

Upstream: pkg/scheduler/framework/plugins/gangscheduling (v1.36, v1.37).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import ClassVar

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import AnyGroup, PodGroup
from kschedctl.cluster import Gap
from kschedctl.scheduler.engine.pod_groups.hierarchy import (
    EntityKey,
    build_composite_key,
    build_pod_group_key,
    build_tree,
    find_parent_key,
    find_root_key,
    get_min_count,
    has_enough_pods,
    iter_ancestors,
)
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    CONDITION,
    LEFT_OVER_AT_ONCE,
    LIKE_ITS_PODS,
    REPORTS_VIOLATIONS,
    UNTIL_INFEASIBLE,
    GroupProgress,
)
from kschedctl.scheduler.engine.pod_groups.state import find_group_state, find_pod_group
from kschedctl.scheduler.engine.pod_groups.victims import find_preemption_role
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, Status
from kschedctl.scheduler.framework.declaration import IS_GROUPED, DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.events import (
    ADD,
    POD,
    UPDATE,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.version_changes import NotedChange
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import GroupKey, get_group_key

GROUP_MISSING = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'
TOO_FEW_PODS = "waiting for minCount pods from a gang to appear in scheduling queue"
TREE_WITHOUT_QUORUM = 'waiting for composite pod group "{}" tree to meet quorum'
NO_QUORUM = "waiting for minCount pods from a gang to be scheduled"
TREES_TRIED_SEPARATELY = "try their groups in random order, and simulations try each PodGroup by itself"
NOT_FOUND = 'failed to get podGroup {}/{}: podgroup.scheduling.k8s.io "{}" not found'
MIN_COUNT_UNREACHABLE = "minCount ({}) cannot be satisfied: {} scheduled, {} remaining"
MIN_COUNT_NOT_REACHED = "minCount ({}) is not yet satisfied: {} scheduled, {} remaining"
REGISTERS_GROUP_UPDATES = ByVersion(
    "lowering a PodGroup's minCount can make the scheduler retry a rejected pod",
    (("", False), ("1.37", True)),
    "#139279",
)
QUEUEING_OF_GROUPS = ByVersion(
    "how the pods of a group are queued",
    (
        ("", "one by one; the first pod pulls in the rest of the group"),
        ("1.37", "as one entry (kschedctl still replays the 1.36 behavior)"),
    ),
    "#138567, #139952",
    "1.37",
)
GROUPS_AS_VICTIMS = ByVersion(
    "how a preempting pod evicts a group that may only be disrupted as a whole",
    (("", "pod by pod"), ("1.37", "as a whole (kschedctl still replays the 1.36 behavior)")),
    "#137981",
    "1.37",
)
COMPOSITE_GATE = ByVersion(
    "feature gate for placing a composite pod group all or nothing",
    (("", "none"), ("1.37", "CompositePodGroup")),
    "#139407, #139596, #140634, #140638",
)


class GangScheduling(DeclaredPlugin):
    """Plugin that makes the pods of a gang wait for each other.

    The pods do not enter the queue until minCount of them exist, and are not bound until minCount of them have nodes.
    With `permits`, binding is delayed at Permit, otherwise at PlacementFeasible.
    """

    name = "GangScheduling"
    points = ("permit",)
    gate = "GangScheduling"
    since = 35
    replayed_since = 36
    kinds = ("PodGroup",)
    gated_kinds: ClassVar = {"CompositePodGroup": COMPOSITE_GATE}
    kinds_matter_to = IS_GROUPED

    changed = (
        UNTIL_INFEASIBLE,
        LIKE_ITS_PODS,
        REPORTS_VIOLATIONS,
        CONDITION,
        LEFT_OVER_AT_ONCE,
        REGISTERS_GROUP_UPDATES,
        QUEUEING_OF_GROUPS,
        GROUPS_AS_VICTIMS,
        COMPOSITE_GATE,
    )

    def __init__(self, permits: bool = True) -> None:
        self.permits = permits

    @classmethod
    def make(cls, args: object, gates: FeatureGates) -> GangScheduling:
        """Build the plugin for the version and its feature gates.

        With gate CompositePodGroup, this is HierarchicalGangScheduling.
        """
        if gates.enabled("CompositePodGroup"):
            return HierarchicalGangScheduling(permits=False)
        return cls(permits=not UNTIL_INFEASIBLE.at(gates.release))

    @classmethod
    def list_noted_changes(cls) -> tuple[NotedChange, ...]:
        """Return the changes in queueing and in evicting groups that are known only from release notes.

        The change in queueing affects pods of groups. The change in evicting affects pods without a group that could
        preempt pods of groups.
        """
        return (
            NotedChange(QUEUEING_OF_GROUPS, Effect.ORDER, lambda info, view: _is_grouped(info)),
            NotedChange(GROUPS_AS_VICTIMS, Effect.VICTIMS, _could_preempt_grouped_pods),
        )

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        yield ClusterEventWithHint(POD, ActionType.ADD, _is_schedulable_after_pod_added, _is_unaffected)
        yield ClusterEventWithHint("PodGroup", ActionType.ADD, _is_schedulable_after_group_added)
        if REGISTERS_GROUP_UPDATES.at(gates.release):
            yield ClusterEventWithHint("PodGroup", ActionType.UPDATE, _is_schedulable_after_group_updated)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue.

        These are new pods of the pod's group, the creation of the group and, in versions that notice it, a lower
        minCount. If several pods are missing, their number is included.
        """
        group = info.spec.scheduling_group
        name = f"{info.namespace}/{group.pod_group_name}" if group else "its group"
        key = get_group_key(info.pod)
        pod_group = find_pod_group(view, key) if key else None
        gang = pod_group.spec.scheduling_policy.gang if pod_group else None

        missing_pods = 0
        if gang and key:
            missing_pods = gang.min_count - find_group_state(view, key).size
        if missing_pods > 1:
            yield WakeTrigger(POD, ADD, f"{missing_pods:,} more pods of group {name} are created")
        else:
            yield WakeTrigger(POD, ADD, f"another pod of group {name} is created")
        yield WakeTrigger("PodGroup", ADD, f"PodGroup {name} is created")
        if gang and REGISTERS_GROUP_UPDATES.at(gates.release):
            yield WakeTrigger("PodGroup", UPDATE, f"minCount of PodGroup {name} is lowered")

    iter_admitting_changes = iter_waking_changes

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on PodGroups if the pod's group is missing, because the group may exist unread.

        Nothing is yielded if the group exists or if the pod has no group.
        """
        key = get_group_key(info.pod)
        if key is not None and find_pod_group(view, key) is None:
            yield Dependency("PodGroup", Effect.REFUSES)

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        """Return Success if the pod may enter the queue, otherwise the reason that keeps it out.

        A pod without a group may enter. The PodGroup of any other pod must exist and, if it is a gang, have at least
        minCount pods.
        """
        key = get_group_key(info.pod)
        if key is None:
            return SUCCESS
        group = find_pod_group(view, key)
        if group is None:
            _, group_name = key
            return Status(Code.UNRESOLVABLE, (GROUP_MISSING.format(group_name),))
        gang = group.spec.scheduling_policy.gang
        if gang is None or _count_group_pods(info, view, key) >= gang.min_count:
            return SUCCESS
        return Status(Code.UNRESOLVABLE, (TOO_FEW_PODS,))

    def permit(self, info: PodInfo, view: Fork, row: int) -> Status:
        """Return Success if minCount pods of the pod's gang have a node, otherwise Wait.

        Also return Success if PlacementFeasible decides instead of Permit (`permits` is False), or if the pod is in no
        gang. Raises PluginError if the PodGroup does not exist.
        """
        key = get_group_key(info.pod) if self.permits else None
        if key is None:
            return SUCCESS
        group = find_pod_group(view, key)
        if group is None:
            namespace, group_name = key
            raise PluginError(NOT_FOUND.format(namespace, group_name, group_name))
        gang = group.spec.scheduling_policy.gang
        if gang is None or len(find_group_state(view, key).scheduled) >= gang.min_count:
            return SUCCESS
        return Status(Code.WAIT, (NO_QUORUM,))

    def check_placement_feasibility(self, group: AnyGroup, progress: GroupProgress) -> Status:
        """Return Success if enough pods of the group are placed, and Wait if the remaining pods may still suffice.

        Return Unschedulable if the placed and all remaining pods together are too few. For a group of groups, child
        groups are counted instead of pods.
        """
        min_count = get_min_count(group)
        if progress.scheduled + progress.remaining < min_count:
            return Status(Code.UNSCHEDULABLE, (MIN_COUNT_UNREACHABLE.format(min_count, *progress),))
        if progress.scheduled < min_count:
            return Status(Code.WAIT, (MIN_COUNT_NOT_REACHED.format(min_count, *progress),))
        return SUCCESS


class HierarchicalGangScheduling(GangScheduling):
    """Plugin for gate CompositePodGroup: a pod waits until all groups of its group's tree are ready."""

    def iter_unknowns(self, info: PodInfo, view: Fork) -> Iterator[Unknown]:
        """Yield an unknown about the order of groups if the pod's group has a parent.

        Upstream tries the groups of a tree in random order. Simulations of several pods try each PodGroup separately.
        """
        if _has_group_with_parent(info, view):
            yield Unknown(Dependency("CompositePodGroup", Effect.ORDER), Gap(TREES_TRIED_SEPARATELY), self.name)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events that may make a rejected pod schedulable, with their hints.

        The events are new pods, and new or changed groups, in the pod's tree of groups.
        """
        yield ClusterEventWithHint(POD, ActionType.ADD, _is_schedulable_after_tree_pod_added)
        yield ClusterEventWithHint("PodGroup", ActionType.ADD, _is_schedulable_after_tree_group_added)
        yield ClusterEventWithHint("PodGroup", ActionType.UPDATE, _is_schedulable_after_tree_group_updated)
        yield ClusterEventWithHint("CompositePodGroup", ActionType.ADD, _is_schedulable_after_composite_added)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change in the pod's tree of groups that moves a rejected pod back to the queue.

        A pod whose group has no parent waits for the same changes as without the feature gate.
        """
        if _has_group_without_parent(info, view):
            yield from super().iter_waking_changes(info, view, gates)
            return
        name = "its tree"
        ancestors = _list_ancestors(info, view)
        if ancestors:
            root_key, _ = ancestors[-1]
            name = f"the tree of CompositePodGroup {root_key.namespace}/{root_key.name}"
        yield WakeTrigger(POD, ADD, f"another pod of a group of {name} is created")
        yield WakeTrigger("PodGroup", ADD, f"another PodGroup of {name} is created")
        yield WakeTrigger("PodGroup", UPDATE, f"minCount of a PodGroup of {name} is lowered")
        yield WakeTrigger("CompositePodGroup", ADD, f"another CompositePodGroup of {name} is created")

    iter_admitting_changes = iter_waking_changes

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on each kind of groups whose unread objects could change the decision about the pod.

        If the pod's group or one of its ancestors is missing, only the kind of the missing group is yielded. For a
        complete tree with a CompositePodGroup as its root, both kinds are yielded, since unread groups may belong to
        the tree. Nothing is yielded for a pod without a group, or for a group without a parent, which is a tree of its
        own.
        """
        if get_group_key(info.pod) is None:
            return
        ancestors = _list_ancestors(info, view)
        if not ancestors:
            yield Dependency("PodGroup", Effect.REFUSES)
            return
        _, highest_group = ancestors[-1]
        is_ancestor_missing = find_parent_key(highest_group) is not None
        has_composite_root = len(ancestors) > 1
        if is_ancestor_missing:
            yield Dependency("CompositePodGroup", Effect.REFUSES)
        elif has_composite_root:
            # Unread groups of the tree could either be ready or not.
            yield Dependency("PodGroup", Effect.EITHER)
            yield Dependency("CompositePodGroup", Effect.EITHER)

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        """Return Success if the pod has no group, or if all groups in its group's tree exist and have enough pods.

        Otherwise, return the reason that keeps the pod out of the queue.
        """
        key = get_group_key(info.pod)
        if key is None:
            return SUCCESS
        try:
            tree = build_tree(view, key)
        except PluginError as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        is_new = view.pods.find_position(info.pod.key) is None
        group_of_new_pod = key if is_new else None  # the pods of this group do not include the new pod yet
        if has_enough_pods(view, tree, group_of_new_pod):
            return SUCCESS
        message = TREE_WITHOUT_QUORUM.format(tree.key.name) if tree.key.composite else TOO_FEW_PODS
        return Status(Code.UNRESOLVABLE, (message,))


def _is_schedulable_after_pod_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added pod is in the same group as the waiting pod."""
    key = get_group_key(info.pod)
    return key is not None and get_group_key(change.new) == key


def _is_unaffected(info: PodInfo, actions: ActionType, view: Fork) -> bool:
    """Return whether the pod is in no group and therefore unaffected by added pods."""
    return get_group_key(info.pod) is None


def _is_schedulable_after_group_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added PodGroup is the group of the waiting pod."""
    return get_group_key(info.pod) == _get_group_key(change)


def _is_schedulable_after_group_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the updated PodGroup is the group of the waiting pod and needs fewer pods than before."""
    return _is_schedulable_after_group_added(info, change, view) and _needs_fewer_pods(change)


def _count_group_pods(info: PodInfo, view: Fork, key: GroupKey) -> int:
    """Return how many pods the group has, including this pod even if it is not in the cluster yet."""
    is_new = view.pods.find_position(info.pod.key) is None
    return find_group_state(view, key).size + int(is_new)


def _is_grouped(info: PodInfo) -> bool:
    """Return whether the pod is in a group."""
    return info.spec.scheduling_group is not None


def _could_preempt_grouped_pods(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod is in no group and has a higher priority than some group or some pod of a group."""
    return not _is_grouped(info) and _find_lowest_group_priority(view) < info.priority


def _find_lowest_group_priority(view: Fork) -> float:
    """Return the lowest priority of all groups and their pods, or infinity without groups. It is cached in the view."""
    return view.memo(("noted", "lowest of groups"), lambda: min(_iter_group_priorities(view), default=inf))


def _iter_group_priorities(view: Fork) -> Iterator[int]:
    """Yield the lowest priority of each group's pods, and the priority of its root group if it has one."""
    pods = view.pods
    for key, positions in pods.positions_by_group.items():
        pod_priorities = pods.get_priorities(positions)
        yield int(pod_priorities.min())
        group_priority = find_preemption_role(view, key, as_groups=True).priority
        if group_priority is not None:
            yield group_priority


# -- trees of groups --------------------------------------------------------------------------------------------------


def _list_ancestors(info: PodInfo, view: Fork) -> list[tuple[EntityKey, AnyGroup]]:
    """Return the pod's group and its ancestors, each with its key, in ascending order until one is missing.

    The list is empty if the pod is in no group, or if its group is missing.
    """
    key = get_group_key(info.pod)
    return [] if key is None else list(iter_ancestors(view, key))


def _find_group_of_pod(info: PodInfo, view: Fork) -> PodGroup | None:
    """Return the pod's PodGroup, or None if the pod is in no group, or if its group is missing."""
    key = get_group_key(info.pod)
    return None if key is None else find_pod_group(view, key)


def _has_group_without_parent(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod's group exists and names no parent group."""
    group = _find_group_of_pod(info, view)
    return group is not None and find_parent_key(group) is None


def _has_group_with_parent(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod's group exists and names a parent group, even if the parent is missing."""
    group = _find_group_of_pod(info, view)
    return group is not None and find_parent_key(group) is not None


def _is_schedulable_after_tree_pod_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added pod is in a group of the same tree as the waiting pod's group."""
    key = get_group_key(change.new)
    return key is not None and _is_in_same_tree(info, build_pod_group_key(key), view)


def _is_schedulable_after_tree_group_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added PodGroup is in the same tree as the waiting pod's group."""
    return _is_in_same_tree(info, build_pod_group_key(_get_group_key(change)), view)


def _is_schedulable_after_tree_group_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the updated PodGroup is in the waiting pod's tree of groups and needs fewer pods than before."""
    return _is_schedulable_after_tree_group_added(info, change, view) and _needs_fewer_pods(change)


def _needs_fewer_pods(change: ChangedObject) -> bool:
    """Return whether the updated group is a gang with a lower minCount than before. False if it was or is no gang."""
    old, new = change.old.spec.scheduling_policy.gang, change.new.spec.scheduling_policy.gang
    return old is not None and new is not None and bool(new.min_count < old.min_count)


def _is_schedulable_after_composite_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added composite group is in the same tree as the waiting pod's group."""
    return _is_in_same_tree(info, build_composite_key(*_get_group_key(change)), view)


def _get_group_key(change: ChangedObject) -> GroupKey:
    """Return the namespace and name of the changed group."""
    return change.new.metadata.namespace, change.new.metadata.name


def _is_in_same_tree(info: PodInfo, other_key: EntityKey, view: Fork) -> bool:
    """Return whether the pod's group and the other group have the same root in `view`, the cluster after the change.

    Return False if the pod has no group. A group whose tree is incomplete counts as being in no tree.
    """
    pod_group = get_group_key(info.pod)
    if pod_group is None:
        return False
    root = find_root_key(view, build_pod_group_key(pod_group))
    return root is not None and root == find_root_key(view, other_key)
