"""Groups of groups: the tree of a CompositePodGroup, from its root down to the PodGroups that pods belong to.

Upstream: BuildHierarchySnapshotFromPod, GetRootKeyForGroup in pkg/scheduler/backend/cache/cache.go, GetPodGroupStates
in plugins/helper (v1.37).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Rows
from kschedctl.api.objects import AnyGroup, CompositePodGroup, PodGroup
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, find_group_state, find_pod_group
from kschedctl.scheduler.framework import PluginError
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import GroupKey

MAX_TREE_DEPTH = 4
"""Maximum number of levels of a tree, including its PodGroups: WorkloadMaxTreeDepth."""
NO_SNAPSHOT = "failed to build hierarchy snapshot: "
NO_POD_GROUP = NO_SNAPSHOT + "pod group object not found in state for {}"
NO_COMPOSITE = NO_SNAPSHOT + "composite pod group object not found in state for {}"
CYCLE = NO_SNAPSHOT + "cycle detected in composite pod group hierarchy: {}"


class EntityKey(NamedTuple):
    """Upstream's key of a group. A PodGroup and a CompositePodGroup may have the same name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def composite(self) -> bool:
        """True for the key of a CompositePodGroup."""
        return self.kind == "compositepodgroup"


def build_pod_group_key(key: GroupKey) -> EntityKey:
    """Build the key of a PodGroup."""
    return EntityKey("podgroup", *key)


def build_composite_key(namespace: str, name: str) -> EntityKey:
    """Build the key of a CompositePodGroup."""
    return EntityKey("compositepodgroup", namespace, name)


@dataclass(frozen=True)
class GroupTree:
    """A group with its child groups, sorted by name. A PodGroup has no children."""

    key: EntityKey
    group: AnyGroup
    children: tuple[GroupTree, ...] = ()

    @property
    def leaves(self) -> Iterator[GroupTree]:
        """The PodGroups of the tree, in the order in which they are tried."""
        if not self.key.composite:
            yield self
        for child in self.children:
            yield from child.leaves

    @property
    def subtrees(self) -> Iterator[GroupTree]:
        """The tree itself and the trees of all groups below it."""
        yield self
        for child in self.children:
            yield from child.subtrees

    @property
    def min_count(self) -> int:
        """The minimum number of pods or child groups that need nodes, which is 1 without a gang policy."""
        return get_min_count(self.group)

    @property
    def pod_group(self) -> GroupKey:
        """The namespace and name of a PodGroup."""
        return self.key.namespace, self.key.name


def get_min_count(group: AnyGroup) -> int:
    """Return the minimum number of a group's pods or child groups that need nodes at once.

    The minimum is 1 without a gang policy.
    """
    gang = group.spec.scheduling_policy.gang
    if gang is None:
        return 1
    return gang.min_count if isinstance(group, PodGroup) else gang.min_group_count  # type: ignore[union-attr]


def find_composite(view: Fork, key: EntityKey) -> CompositePodGroup | None:
    """Return the CompositePodGroup with this key, or None if it does not exist."""
    composite: CompositePodGroup | None = view.objects.index(
        "composite pod groups", _index_composites, "CompositePodGroup"
    ).get(key)
    return composite


def find_group(view: Fork, key: EntityKey) -> AnyGroup | None:
    """Return the PodGroup or CompositePodGroup with this key, or None if it does not exist."""
    return find_composite(view, key) if key.composite else find_pod_group(view, (key.namespace, key.name))


def find_parent_key(group: AnyGroup) -> EntityKey | None:
    """Return the key of the group's parent, or None if it is a root."""
    name = group.spec.parent_composite_pod_group_name
    return None if name is None else build_composite_key(group.metadata.namespace, name)


def find_root_key(view: Fork, key: EntityKey) -> EntityKey | None:
    """Return the key of the root of a group's tree, or None if an object is missing or the parents form a cycle."""
    seen: set[EntityKey] = set()
    while key not in seen:
        seen.add(key)
        group = find_group(view, key)
        if group is None:
            return None
        parent = find_parent_key(group)
        if parent is None:
            return key
        key = parent
    return None


def iter_ancestors(view: Fork, key: GroupKey) -> Iterator[tuple[EntityKey, AnyGroup]]:
    """Yield a PodGroup and the groups above it, each with its key. In a complete tree, the last group is the root.

    The iteration stops at a missing group, at a cycle, and at the maximum depth. If CompositePodGroups are disabled,
    only the PodGroup is yielded.
    """
    ancestor: EntityKey | None = build_pod_group_key(key)
    seen: set[EntityKey] = set()
    while ancestor is not None and ancestor not in seen and len(seen) < MAX_TREE_DEPTH:
        seen.add(ancestor)
        group = find_group(view, ancestor)
        if group is None:
            return
        yield ancestor, group
        ancestor = find_parent_key(group) if view.settings.groups_of_groups else None


def build_tree(view: Fork, key: GroupKey) -> GroupTree:
    """Build the whole tree to which a PodGroup belongs. A PodGroup without a parent is a tree of one group.

    Raises PluginError, with PreEnqueue's message, if an object is missing, if the groups form a cycle, or if the tree
    has too many levels.
    """
    group = find_pod_group(view, key)
    if group is None:
        raise PluginError(NO_POD_GROUP.format(build_pod_group_key(key)))
    parent = find_parent_key(group)
    if parent is None:
        return GroupTree(build_pod_group_key(key), group)

    # Go up to the root, and check that no group is below itself.
    top = _find_top_key(view, parent)
    repeated = _find_repeated_group(view, top, set())
    if repeated is not None:
        raise PluginError(CYCLE.format(repeated))
    composite = find_composite(view, top)
    # `top` may be missing. It still has a parent if the tree has too many levels.
    if composite is None or find_parent_key(composite) is not None:
        raise PluginError(NO_COMPOSITE.format(parent))
    return _build_subtree(view, top, composite)


def find_composite_tree(view: Fork, key: GroupKey) -> GroupTree | None:
    """Find the tree of groups that a PodGroup belongs to.

    Return None if CompositePodGroups are disabled, if the PodGroup does not exist or has no parent, or if the tree is
    invalid.
    """
    group = find_pod_group(view, key) if view.settings.groups_of_groups else None
    if group is None or find_parent_key(group) is None:
        return None
    try:
        return build_tree(view, key)
    except PluginError:
        return None


def iter_child_orders(tree: GroupTree) -> Iterator[GroupTree]:
    """Yield copies of the tree with its groups on all levels in every possible order, the current order first."""
    for children in permutations(tree.children):
        for reordered_children in product(*map(iter_child_orders, children)):
            yield replace(tree, children=reordered_children)


def _find_top_key(view: Fork, key: EntityKey) -> EntityKey:
    """Return the key of the highest group among this CompositePodGroup and its ancestors, within the maximum depth.

    Raises PluginError if an object is missing.
    """
    for _ in range(MAX_TREE_DEPTH - 1):  # the PodGroup below is the lowest level
        composite = find_composite(view, key)
        if composite is None:
            raise PluginError(NO_COMPOSITE.format(key))
        parent = find_parent_key(composite)
        if parent is None:
            break
        key = parent
    return key


def _find_repeated_group(view: Fork, key: EntityKey, seen: set[EntityKey]) -> EntityKey | None:
    """Return the first CompositePodGroup that is visited twice on the way down from a group, or None.

    All visited groups are added to `seen`.
    """
    if key in seen:
        return key
    seen.add(key)
    for child in _list_children(view, key):
        if child.composite:
            repeated = _find_repeated_group(view, child, seen)
            if repeated is not None:
                return repeated
    return None


def _build_subtree(view: Fork, key: EntityKey, composite: CompositePodGroup) -> GroupTree:
    """Build the tree that has this CompositePodGroup as its root, with the groups below it."""
    children = []
    for child in _list_children(view, key):
        if child.composite:
            child_composite = find_composite(view, child)
            assert child_composite is not None  # it exists, since it names its parent
            children.append(_build_subtree(view, child, child_composite))
        else:
            group = find_pod_group(view, (child.namespace, child.name))
            assert group is not None
            children.append(GroupTree(child, group))
    return GroupTree(key, composite, tuple(children))


def _list_children(view: Fork, key: EntityKey) -> tuple[EntityKey, ...]:
    """Return the keys of the groups whose parent is this group, sorted by name (upstream has no order)."""
    children: tuple[EntityKey, ...] = view.objects.index(
        "children of groups", _index_by_parent, "PodGroup", "CompositePodGroup"
    ).get(key, ())
    return children


def find_placed_pods(view: Fork, group: AnyGroup) -> Rows:
    """Return the positions of a group's placed pods, including the pods of the groups below it."""
    key = group.metadata.namespace, group.metadata.name
    if isinstance(group, PodGroup):
        return find_group_state(view, key).scheduled
    leaves = _build_subtree(view, build_composite_key(*key), group).leaves
    return np.concatenate([NO_MEMBERS, *(find_group_state(view, leaf.pod_group).scheduled for leaf in leaves)])


def has_enough_pods(view: Fork, tree: GroupTree, extra_pod_group: GroupKey | None = None) -> bool:
    """Return whether a group has its minimum number of pods.

    A CompositePodGroup needs its minimum number of child groups that have enough pods. The PodGroup `extra_pod_group`
    counts as having one more pod than exists.
    """
    if tree.key.composite:
        return sum(has_enough_pods(view, child, extra_pod_group) for child in tree.children) >= tree.min_count
    pods = find_group_state(view, tree.pod_group).size
    if tree.pod_group == extra_pod_group:
        pods += 1
    return pods >= tree.min_count


def _index_composites(groups: Iterable[CompositePodGroup]) -> dict[EntityKey, CompositePodGroup]:
    """Index CompositePodGroups by key."""
    return {build_composite_key(group.metadata.namespace, group.metadata.name): group for group in groups}


def _index_by_parent(
    groups: Iterable[PodGroup], composites: Iterable[CompositePodGroup]
) -> dict[EntityKey, tuple[EntityKey, ...]]:
    """Index the keys of groups by the key of their parent, sorted by name. Groups without a parent are left out."""
    children: dict[EntityKey, list[EntityKey]] = {}
    keyed_groups: list[tuple[EntityKey, AnyGroup]] = [
        (build_pod_group_key(_get_group_key(group)), group) for group in groups
    ]
    keyed_groups += [(build_composite_key(*_get_group_key(group)), group) for group in composites]
    for key, group in keyed_groups:
        parent = find_parent_key(group)
        if parent is not None:
            children.setdefault(parent, []).append(key)
    return {parent: tuple(sorted(keys, key=lambda key: (key.name, key.kind))) for parent, keys in children.items()}


def _get_group_key(group: AnyGroup) -> GroupKey:
    """Return the namespace and name of a group."""
    return group.metadata.namespace, group.metadata.name
