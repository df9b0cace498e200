"""GangScheduling with gate CompositePodGroup: a pod waits until all groups of the tree that its group is of are ready.

Upstream: pkg/scheduler/framework/plugins/gangscheduling (v1.37). What its Permit says of a tree follows from what
PlacementFeasible says; 1.38 drops it (#141182).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.cluster import Gap
from kschedctl.scheduler.engine.pod_groups.hierarchy import (
    EntityKey,
    ancestry,
    composite_key,
    is_ready,
    parent_of,
    pod_group_key,
    root_of,
    tree_of,
)
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, Status
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.events import POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import ADD, UPDATE, WakeTrigger
from kschedctl.scheduler.plugins.gang_scheduling.plugin import TOO_FEW, GangScheduling, needs_less
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import GroupKey, group_key

NO_QUORUM = 'waiting for composite pod group "{}" tree to meet quorum'
ALONE = "try their groups in an order that is up to chance, and simulations try each PodGroup by itself"


class HierarchicalGangScheduling(GangScheduling):
    def doubts(self, info: PodInfo, view: Fork) -> Iterator[Unknown]:
        """What is said of several pods does not go by trees."""
        key = group_key(info.pod)
        group = find_pod_group(view, key) if key else None
        if group is not None and parent_of(group) is not None:
            yield Unknown(Dependency("CompositePodGroup", Effect.ORDER), Gap(ALONE), self.name)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(POD, ActionType.ADD, _after_pod_added)
        yield ClusterEventWithHint("PodGroup", ActionType.ADD, _after_group_added)
        yield ClusterEventWithHint("PodGroup", ActionType.UPDATE, _after_group_updated)
        yield ClusterEventWithHint("CompositePodGroup", ActionType.ADD, _after_composite_added)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        key = group_key(info.pod)
        above = [] if key is None else list(ancestry(view, key))
        if len(above) == 1 and parent_of(above[0][1]) is None:
            yield from super().waking_changes(info, view, gates)
            return
        name = f"the tree of CompositePodGroup {above[-1][0].namespace}/{above[-1][0].name}" if above else "its tree"
        yield WakeTrigger(POD, ADD, f"another pod of a group of {name} is created")
        yield WakeTrigger("PodGroup", ADD, f"another PodGroup of {name} is created")
        yield WakeTrigger("PodGroup", UPDATE, f"minCount of a PodGroup of {name} is lowered")
        yield WakeTrigger("CompositePodGroup", ADD, f"another CompositePodGroup of {name} is created")

    admitting_changes = waking_changes

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        key = group_key(info.pod)
        if key is None:
            return
        above = list(ancestry(view, key))
        if not above:
            yield Dependency("PodGroup", Effect.REFUSES)
        elif parent_of(above[-1][1]) is not None:
            yield Dependency("CompositePodGroup", Effect.REFUSES)
        elif len(above) > 1:
            yield Dependency("PodGroup", Effect.EITHER)
            yield Dependency("CompositePodGroup", Effect.EITHER)

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        key = group_key(info.pod)
        if key is None:
            return SUCCESS
        try:
            tree = tree_of(view, key)
        except PluginError as failure:
            return Status(Code.UNRESOLVABLE, (str(failure),))
        new = key if view.pods.position(info.pod.key) is None else None
        if is_ready(view, tree, new):
            return SUCCESS
        return Status(Code.UNRESOLVABLE, (NO_QUORUM.format(tree.key.name) if tree.key.composite else TOO_FEW,))


def _after_pod_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    key = group_key(change.new)
    return key is not None and _same_tree(info, pod_group_key(key), view)


def _after_group_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return _same_tree(info, pod_group_key(_name(change)), view)


def _after_group_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return _after_group_added(info, change, view) and needs_less(change)


def _after_composite_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return _same_tree(info, composite_key(*_name(change)), view)


def _name(change: ChangedObject) -> GroupKey:
    return change.new.metadata.namespace, change.new.metadata.name


def _same_tree(info: PodInfo, other: EntityKey, view: Fork) -> bool:
    """Whether the pod's group and the other have the same root, as things are after the change."""
    own = group_key(info.pod)
    root = root_of(view, pod_group_key(own)) if own else None
    return root is not None and root == root_of(view, other)
