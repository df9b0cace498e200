"""The trees of groups to GangScheduling: a pod waits until all groups of the tree that its group is of are ready.

Upstream: pkg/scheduler/framework/plugins/gangscheduling (v1.37) with gate CompositePodGroup. What its Permit says of a
tree follows from what PlacementFeasible says; 1.38 drops it (#141182).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.scheduler.engine.pod_groups.hierarchy import (
    EntityKey,
    build_tree,
    entity_key_of_composite,
    entity_key_of_pod_group,
    find_parent_key,
    find_root_key,
    is_ready,
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


def events_of_trees() -> Iterator[ClusterEventWithHint]:
    yield ClusterEventWithHint(POD, ActionType.ADD, _after_pod_added)
    yield ClusterEventWithHint("PodGroup", ActionType.ADD, _after_group_added)
    yield ClusterEventWithHint("PodGroup", ActionType.UPDATE, _after_group_updated)
    yield ClusterEventWithHint("CompositePodGroup", ActionType.ADD, _after_composite_added)


def is_alone(info: PodInfo, view: Fork) -> bool:
    """Whether the pod's group is there, and of no other."""
    key = group_key(info.pod)
    above = [] if key is None else list(iter_ancestors(view, key))
    return len(above) == 1 and find_parent_key(above[0][1]) is None


def is_in_tree(info: PodInfo, view: Fork) -> bool:
    """Whether the pod's group says that it is of another."""
    key = group_key(info.pod)
    above = [] if key is None else list(iter_ancestors(view, key))
    return bool(above) and find_parent_key(above[0][1]) is not None


def waking_changes_of_tree(info: PodInfo, view: Fork) -> Iterator[WakeTrigger]:
    key = group_key(info.pod)
    above = [] if key is None else list(iter_ancestors(view, key))
    name = f"the tree of CompositePodGroup {above[-1][0].namespace}/{above[-1][0].name}" if above else "its tree"
    yield WakeTrigger(POD, ADD, f"another pod of a group of {name} is created")
    yield WakeTrigger("PodGroup", ADD, f"another PodGroup of {name} is created")
    yield WakeTrigger("PodGroup", UPDATE, f"minCount of a PodGroup of {name} is lowered")
    yield WakeTrigger("CompositePodGroup", ADD, f"another CompositePodGroup of {name} is created")


def dependencies_of_tree(info: PodInfo, view: Fork) -> Iterator[Dependency]:
    key = group_key(info.pod)
    if key is None:
        return
    above = list(iter_ancestors(view, key))
    if not above:
        yield Dependency("PodGroup", Effect.REFUSES)
    elif find_parent_key(above[-1][1]) is not None:
        yield Dependency("CompositePodGroup", Effect.REFUSES)
    elif len(above) > 1:
        yield Dependency("PodGroup", Effect.EITHER)
        yield Dependency("CompositePodGroup", Effect.EITHER)


def readiness(info: PodInfo, view: Fork, too_few: str) -> Status:
    """What PreEnqueue says; ``too_few``: of a group that is of no other."""
    key = group_key(info.pod)
    if key is None:
        return SUCCESS
    try:
        tree = build_tree(view, key)
    except PluginError as failure:
        return Status(Code.UNRESOLVABLE, (str(failure),))
    new = key if view.pods.find_position(info.pod.key) is None else None
    if is_ready(view, tree, new):
        return SUCCESS
    return Status(Code.UNRESOLVABLE, (NO_QUORUM.format(tree.key.name) if tree.key.composite else too_few,))


def needs_less(change: ChangedObject) -> bool:
    """Fewer pods may be enough."""
    old, new = (group.spec.scheduling_policy.gang for group in (change.old, change.new))
    return old is not None and new is not None and bool(new.min_count < old.min_count)


def _after_pod_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    key = group_key(change.new)
    return key is not None and _same_tree(info, entity_key_of_pod_group(key), view)


def _after_group_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return _same_tree(info, entity_key_of_pod_group(_name(change)), view)


def _after_group_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return _after_group_added(info, change, view) and needs_less(change)


def _after_composite_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    return _same_tree(info, entity_key_of_composite(*_name(change)), view)


def _name(change: ChangedObject) -> GroupKey:
    return change.new.metadata.namespace, change.new.metadata.name


def _same_tree(info: PodInfo, other: EntityKey, view: Fork) -> bool:
    """Whether the pod's group and the other have the same root, as things are after the change."""
    own = group_key(info.pod)
    root = find_root_key(view, entity_key_of_pod_group(own)) if own else None
    return root is not None and root == find_root_key(view, other)
