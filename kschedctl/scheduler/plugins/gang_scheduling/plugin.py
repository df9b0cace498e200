"""GangScheduling: the pods of a gang wait for each other, before the queue and before they are bound.

Upstream: pkg/scheduler/framework/plugins/gangscheduling (v1.36, v1.37).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import ClassVar

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import AnyGroup
from kschedctl.cluster import Gap
from kschedctl.scheduler.engine.pod_groups.hierarchy import find_min_count
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    CONDITION,
    LEFT_OVER_AT_ONCE,
    LIKE_ITS_PODS,
    UNTIL_INFEASIBLE,
    GroupProgress,
)
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group, find_state
from kschedctl.scheduler.engine.pod_groups.victims import find_standing
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, Status
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.events import POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.noted_changes import NotedChange
from kschedctl.scheduler.framework.pod_traits import IS_GROUPED
from kschedctl.scheduler.framework.waking import ADD, UPDATE, WakeTrigger
from kschedctl.scheduler.plugins.gang_scheduling import trees
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import GroupKey, group_key

NO_GROUP = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
NO_QUORUM = "waiting for minCount pods from a gang to be scheduled"
ALONE = "try their groups in an order that is up to chance, and simulations try each PodGroup by itself"
NOT_FOUND = 'failed to get podGroup {}/{}: podgroup.scheduling.k8s.io "{}" not found'
TOO_FEW_LEFT = "minCount ({}) cannot be satisfied: {} scheduled, {} remaining"
NOT_YET = "minCount ({}) is not yet satisfied: {} scheduled, {} remaining"
HEARS_OF_LESS = ByVersion(
    "whether GangScheduling asks to be told of PodGroups that need fewer pods", (("", False), ("1.37", True)), "#139279"
)
QUEUED = ByVersion(
    "how the pods of a group stand in the queue",
    (("", "each by itself; the first takes the others with it"), ("1.37", "as one; replayed as in 1.36")),
    "#138567, #139952",
    "1.37",
)
AS_VICTIMS = ByVersion(
    "how a pod that preempts evicts groups that are disrupted together",
    (("", "pod by pod"), ("1.37", "as a whole; replayed as in 1.36")),
    "#137981",
    "1.37",
)
COMPOSITE_GATE = ByVersion(
    "the gate with which groups of groups are placed together, or not at all",
    (("", "no such gate"), ("1.37", "CompositePodGroup")),
    "#139407, #139596, #140634, #140638",
)


class GangScheduling(DeclaredPlugin):
    """Keeps a pod out of the queue until its gang has minCount pods, and waits with binding until so many have a node.

    ``permits``: it does so at Permit, else at PlacementFeasible.
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
        CONDITION,
        LEFT_OVER_AT_ONCE,
        HEARS_OF_LESS,
        QUEUED,
        AS_VICTIMS,
        COMPOSITE_GATE,
    )

    def __init__(self, permits: bool = True) -> None:
        self.permits = permits

    @classmethod
    def make(cls, args: object, gates: FeatureGates) -> GangScheduling:
        if gates.enabled("CompositePodGroup"):
            return HierarchicalGangScheduling(permits=False)
        return cls(permits=not UNTIL_INFEASIBLE.at(gates.release))

    @classmethod
    def noted_changes(cls) -> tuple[NotedChange, ...]:
        """Changes that concern other pods, too: of which groups they would evict how many is by these rules."""
        return (
            NotedChange(QUEUED, Effect.ORDER, lambda info, view: _is_grouped(info)),
            NotedChange(AS_VICTIMS, Effect.VICTIMS, _could_evict_of_groups),
        )

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(POD, ActionType.ADD, _after_pod_added, _spared)
        yield ClusterEventWithHint("PodGroup", ActionType.ADD, _after_group_added)
        if HEARS_OF_LESS.at(gates.release):
            yield ClusterEventWithHint("PodGroup", ActionType.UPDATE, _after_group_updated)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        group = info.spec.scheduling_group
        name = f"{info.namespace}/{group.pod_group_name}" if group else "its group"
        key = group_key(info.pod)
        pod_group = find_pod_group(view, key) if key else None
        gang = pod_group.spec.scheduling_policy.gang if pod_group else None
        missing = gang.min_count - find_state(view, key).size if gang and key else 0
        another = f"{missing:,} more pods" if missing > 1 else "another pod"
        yield WakeTrigger(POD, ADD, f"{another} of group {name} {'are' if missing > 1 else 'is'} created")
        yield WakeTrigger("PodGroup", ADD, f"PodGroup {name} is created")
        if gang and HEARS_OF_LESS.at(gates.release):
            yield WakeTrigger("PodGroup", UPDATE, f"minCount of PodGroup {name} is lowered")

    admitting_changes = waking_changes

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        key = group_key(info.pod)
        if key is not None and find_pod_group(view, key) is None:
            yield Dependency("PodGroup", Effect.REFUSES)

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        key = group_key(info.pod)
        if key is None:
            return SUCCESS
        group = find_pod_group(view, key)
        if group is None:
            return Status(Code.UNRESOLVABLE, (NO_GROUP.format(key[1]),))
        gang = group.spec.scheduling_policy.gang
        if gang is None or _size(info, view, key) >= gang.min_count:
            return SUCCESS
        return Status(Code.UNRESOLVABLE, (TOO_FEW,))

    def permit(self, info: PodInfo, view: Fork, row: int) -> Status:
        key = group_key(info.pod) if self.permits else None
        if key is None:
            return SUCCESS
        group = find_pod_group(view, key)
        if group is None:
            raise PluginError(NOT_FOUND.format(*key, key[1]))
        gang = group.spec.scheduling_policy.gang
        if gang is None or len(find_state(view, key).scheduled) >= gang.min_count:
            return SUCCESS
        return Status(Code.WAIT, (NO_QUORUM,))

    def placement_feasible(self, group: AnyGroup, progress: GroupProgress) -> Status:
        """A group without a policy needs one pod, or one group."""
        least = find_min_count(group)
        if progress.scheduled + progress.remaining < least:
            return Status(Code.UNSCHEDULABLE, (TOO_FEW_LEFT.format(least, *progress),))
        if progress.scheduled < least:
            return Status(Code.WAIT, (NOT_YET.format(least, *progress),))
        return SUCCESS


class HierarchicalGangScheduling(GangScheduling):
    """With gate CompositePodGroup: a pod waits until all groups of the tree that its group is of are ready."""

    def doubts(self, info: PodInfo, view: Fork) -> Iterator[Unknown]:
        """What is said of several pods does not go by trees."""
        if trees.is_in_tree(info, view):
            yield Unknown(Dependency("CompositePodGroup", Effect.ORDER), Gap(ALONE), self.name)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        return trees.events_of_trees()

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        if trees.is_alone(info, view):
            return super().waking_changes(info, view, gates)
        return trees.waking_changes_of_tree(info, view)

    admitting_changes = waking_changes

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        return trees.dependencies_of_tree(info, view)

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        return trees.readiness(info, view, TOO_FEW)


def _after_pod_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Another pod of the group may complete it."""
    key = group_key(info.pod)
    return key is not None and group_key(change.new) == key


def _spared(info: PodInfo, actions: ActionType, view: Fork) -> bool:
    return group_key(info.pod) is None


def _after_group_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return group_key(info.pod) == (change.new.metadata.namespace, change.new.metadata.name)


def _after_group_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return _after_group_added(info, change, view) and trees.needs_less(change)


def _size(info: PodInfo, view: Fork, key: GroupKey) -> int:
    """How many pods the group has, this one among them, which need not be in the cluster yet."""
    return find_state(view, key).size + (view.pods.find_position(info.pod.key) is None)


def _is_grouped(info: PodInfo) -> bool:
    return info.spec.scheduling_group is not None


def _could_evict_of_groups(info: PodInfo, view: Fork) -> bool:
    """Whether a pod that preempts by itself could evict pods of groups, by their own priority or by their group's."""
    return not _is_grouped(info) and _lowest_of_groups(view) < info.priority


def _lowest_of_groups(view: Fork) -> float:
    """The lowest priority by which a pod of a group could go."""
    return view.memo(("noted", "lowest of groups"), lambda: min(_of_groups(view), default=inf))


def _of_groups(view: Fork) -> Iterator[int]:
    for key, positions in view.pods.by_group.items():
        yield int(view.pods.priority[view.pods.info[positions]].min())
        priority = find_standing(view, key, as_groups=True).priority
        if priority is not None:
            yield priority
