"""Rules of GangScheduling for trees of groups: a pod waits until all groups of its group's tree are ready.

Upstream: pkg/scheduler/framework/plugins/gangscheduling (v1.37) with gate CompositePodGroup. The answer of its Permit
for a tree follows from that of PlacementFeasible. 1.38 drops it (#141182).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.scheduler.engine.pod_groups.hierarchy import (
    EntityKey,
    build_composite_key,
    build_pod_group_key,
    build_tree,
    find_parent_key,
    find_root_key,
    has_enough_pods,
    iter_ancestors,
)
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, Status
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.scheduler.framework.waking import ADD, UPDATE, WakeTrigger
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import GroupKey, group_key

NO_QUORUM = 'waiting for composite pod group "{}" tree to meet quorum'


def tree_events() -> Iterator[ClusterEventWithHint]:
    """Yield the events that GangScheduling registers for trees."""
    yield ClusterEventWithHint(POD, ActionType.ADD, _is_schedulable_after_pod_added)
    yield ClusterEventWithHint("PodGroup", ActionType.ADD, _is_schedulable_after_group_added)
    yield ClusterEventWithHint("PodGroup", ActionType.UPDATE, _is_schedulable_after_group_updated)
    yield ClusterEventWithHint("CompositePodGroup", ActionType.ADD, _is_schedulable_after_composite_added)


def is_without_parent(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod's group exists and has no parent."""
    key = group_key(info.pod)
    ancestors = [] if key is None else list(iter_ancestors(view, key))
    return len(ancestors) == 1 and find_parent_key(ancestors[0][1]) is None


def has_parent(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod's group names a parent."""
    key = group_key(info.pod)
    ancestors = [] if key is None else list(iter_ancestors(view, key))
    return bool(ancestors) and find_parent_key(ancestors[0][1]) is not None


def tree_waking_changes(info: PodInfo, view: Fork) -> Iterator[WakeTrigger]:
    """Yield the changes that move a rejected pod back to the queue, in words."""
    key = group_key(info.pod)
    ancestors = [] if key is None else list(iter_ancestors(view, key))
    name = (
        f"the tree of CompositePodGroup {ancestors[-1][0].namespace}/{ancestors[-1][0].name}"
        if ancestors
        else "its tree"
    )
    yield WakeTrigger(POD, ADD, f"another pod of a group of {name} is created")
    yield WakeTrigger("PodGroup", ADD, f"another PodGroup of {name} is created")
    yield WakeTrigger("PodGroup", UPDATE, f"minCount of a PodGroup of {name} is lowered")
    yield WakeTrigger("CompositePodGroup", ADD, f"another CompositePodGroup of {name} is created")


def tree_dependencies(info: PodInfo, view: Fork) -> Iterator[Dependency]:
    """Yield the kinds of missing groups above the pod, or of all groups of a complete tree."""
    key = group_key(info.pod)
    if key is None:
        return
    ancestors = list(iter_ancestors(view, key))
    if not ancestors:
        yield Dependency("PodGroup", Effect.REFUSES)
    elif find_parent_key(ancestors[-1][1]) is not None:
        yield Dependency("CompositePodGroup", Effect.REFUSES)
    elif len(ancestors) > 1:
        yield Dependency("PodGroup", Effect.EITHER)
        yield Dependency("CompositePodGroup", Effect.EITHER)


def tree_readiness(info: PodInfo, view: Fork, too_few_message: str) -> Status:
    """Return the status of PreEnqueue for a pod in a tree.

    `too_few_message` is the message for a group without a parent.
    """
    key = group_key(info.pod)
    if key is None:
        return SUCCESS
    try:
        tree = build_tree(view, key)
    except PluginError as error:
        return Status(Code.UNRESOLVABLE, (str(error),))
    new = key if view.pods.find_position(info.pod.key) is None else None
    if has_enough_pods(view, tree, new):
        return SUCCESS
    return Status(Code.UNRESOLVABLE, (NO_QUORUM.format(tree.key.name) if tree.key.composite else too_few_message,))


def needs_fewer_pods(change: ChangedObject) -> bool:
    """Return whether the updated group has a lower minCount than before."""
    old, new = (group.spec.scheduling_policy.gang for group in (change.old, change.new))
    return old is not None and new is not None and bool(new.min_count < old.min_count)


def _is_schedulable_after_pod_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added pod is in the tree of the waiting pod."""
    key = group_key(change.new)
    return key is not None and _is_in_same_tree(info, build_pod_group_key(key), view)


def _is_schedulable_after_group_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added group is in the tree of the waiting pod."""
    return _is_in_same_tree(info, build_pod_group_key(_changed_group_key(change)), view)


def _is_schedulable_after_group_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether a group in the tree of the waiting pod needs fewer pods than before."""
    return _is_schedulable_after_group_added(info, change, view) and needs_fewer_pods(change)


def _is_schedulable_after_composite_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added composite group is in the tree of the waiting pod."""
    return _is_in_same_tree(info, build_composite_key(*_changed_group_key(change)), view)


def _changed_group_key(change: ChangedObject) -> GroupKey:
    """Return the namespace and name of the changed group."""
    return change.new.metadata.namespace, change.new.metadata.name


def _is_in_same_tree(info: PodInfo, other: EntityKey, view: Fork) -> bool:
    """Return whether the pod's group and the other have the same root after the change."""
    own = group_key(info.pod)
    root = find_root_key(view, build_pod_group_key(own)) if own else None
    return root is not None and root == find_root_key(view, other)
