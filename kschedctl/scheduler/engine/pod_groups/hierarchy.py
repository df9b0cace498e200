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
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, find_pod_group, find_state
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
    """Upstream's key of a group; a PodGroup and a CompositePodGroup may have the same name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def composite(self) -> bool:
        """Whether it is the key of a CompositePodGroup."""
        return self.kind == "compositepodgroup"


def entity_key_of_pod_group(key: GroupKey) -> EntityKey:
    """Build the key of a PodGroup."""
    return EntityKey("podgroup", *key)


def entity_key_of_composite(namespace: str, name: str) -> EntityKey:
    """Build the key of a CompositePodGroup."""
    return EntityKey("compositepodgroup", namespace, name)


@dataclass(frozen=True)
class GroupTree:
    """A group with its child groups, sorted by name; a PodGroup has no children."""

    key: EntityKey
    group: AnyGroup
    children: tuple[GroupTree, ...] = ()

    @property
    def leaves(self) -> Iterator[GroupTree]:
        """The PodGroups, in the order in which they are tried."""
        if not self.key.composite:
            yield self
        for child in self.children:
            yield from child.leaves

    @property
    def nodes(self) -> Iterator[GroupTree]:
        """The group and all groups below it."""
        yield self
        for child in self.children:
            yield from child.nodes

    @property
    def min_count(self) -> int:
        """Minimum number of its pods or groups that need nodes; 1 without a gang policy."""
        return find_min_count(self.group)

    @property
    def pod_group(self) -> GroupKey:
        """The key of a PodGroup."""
        return self.key.namespace, self.key.name


def find_min_count(group: AnyGroup) -> int:
    """Return the minimum number of pods or groups of a group that need nodes."""
    gang = group.spec.scheduling_policy.gang
    if gang is None:
        return 1
    return gang.min_count if isinstance(group, PodGroup) else gang.min_group_count  # type: ignore[union-attr]


def find_composite(view: Fork, key: EntityKey) -> CompositePodGroup | None:
    """Return the CompositePodGroup of a key, or None."""
    found: CompositePodGroup | None = view.objects.index(
        "composite pod groups", _index_composites, "CompositePodGroup"
    ).get(key)
    return found


def find_group(view: Fork, key: EntityKey) -> AnyGroup | None:
    """Return the group of a key, or None."""
    return find_composite(view, key) if key.composite else find_pod_group(view, (key.namespace, key.name))


def find_parent_key(group: AnyGroup) -> EntityKey | None:
    """Return the key of a group's parent, or None."""
    name = group.spec.parent_composite_pod_group_name
    return None if name is None else entity_key_of_composite(group.metadata.namespace, name)


def find_root_key(view: Fork, key: EntityKey) -> EntityKey | None:
    """Return the key of the root of a group's tree, or None if an object is missing or there is a cycle."""
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
    """Yield a PodGroup and the groups above it, as far as they exist; the last is the root of a complete tree."""
    at: EntityKey | None = entity_key_of_pod_group(key)
    seen: set[EntityKey] = set()
    while at is not None and at not in seen and len(seen) < MAX_TREE_DEPTH:
        seen.add(at)
        group = find_group(view, at)
        if group is None:
            return
        yield at, group
        at = find_parent_key(group) if view.settings.groups_of_groups else None


def build_tree(view: Fork, key: GroupKey) -> GroupTree:
    """Build the whole tree of a PodGroup. Raises PluginError with PreEnqueue's message if that is impossible."""
    group = find_pod_group(view, key)
    if group is None:
        raise PluginError(NO_POD_GROUP.format(entity_key_of_pod_group(key)))
    start = find_parent_key(group)
    if start is None:
        return GroupTree(entity_key_of_pod_group(key), group)
    top = _find_top_key(view, start)
    circular = _find_cycle(view, top, set())
    if circular is not None:
        raise PluginError(CYCLE.format(circular))
    composite = find_composite(view, top)
    if composite is None or find_parent_key(composite) is not None:
        raise PluginError(NO_COMPOSITE.format(start))
    return _build_subtree(view, top, composite)


def find_composite_tree(view: Fork, key: GroupKey) -> GroupTree | None:
    """Return the tree of a PodGroup that is part of a group of groups, otherwise None."""
    group = find_pod_group(view, key) if view.settings.groups_of_groups else None
    if group is None or find_parent_key(group) is None:
        return None
    try:
        return build_tree(view, key)
    except PluginError:
        return None


def iter_orders(tree: GroupTree) -> Iterator[GroupTree]:
    """Yield the tree with its groups in each order, starting with the given one."""
    for children in permutations(tree.children):
        for of_children in product(*map(iter_orders, children)):
            yield replace(tree, children=of_children)


def _find_top_key(view: Fork, key: EntityKey) -> EntityKey:
    """Return the highest ancestor within the maximum depth. Raises PluginError if an object is missing."""
    for _ in range(MAX_TREE_DEPTH - 1):
        composite = find_composite(view, key)
        if composite is None:
            raise PluginError(NO_COMPOSITE.format(key))
        parent = find_parent_key(composite)
        if parent is None:
            break
        key = parent
    return key


def _find_cycle(view: Fork, key: EntityKey, seen: set[EntityKey]) -> EntityKey | None:
    """Return the first group that is met twice on the way down, or None."""
    if key in seen:
        return key
    seen.add(key)
    below = (_find_cycle(view, child, seen) for child in _find_children(view, key) if child.composite)
    return next((circular for circular in below if circular is not None), None)


def _build_subtree(view: Fork, key: EntityKey, composite: CompositePodGroup) -> GroupTree:
    """Build the tree below a CompositePodGroup."""
    children = []
    for child in _find_children(view, key):
        if child.composite:
            of_groups = find_composite(view, child)
            assert of_groups is not None  # it names its parent
            children.append(_build_subtree(view, child, of_groups))
        else:
            group = find_pod_group(view, (child.namespace, child.name))
            assert group is not None
            children.append(GroupTree(child, group))
    return GroupTree(key, composite, tuple(children))


def _find_children(view: Fork, key: EntityKey) -> tuple[EntityKey, ...]:
    """Return the keys of the groups that name this group as parent, by name; upstream uses a Go map's order."""
    found: tuple[EntityKey, ...] = view.objects.index(
        "children of groups", _index_by_parent, "PodGroup", "CompositePodGroup"
    ).get(key, ())
    return found


def find_scheduled_below(view: Fork, group: AnyGroup) -> Rows:
    """Return the positions of the pods of a group, or of all groups below it, that have a node."""
    key = group.metadata.namespace, group.metadata.name
    if isinstance(group, PodGroup):
        return find_state(view, key).scheduled
    leaves = _build_subtree(view, entity_key_of_composite(*key), group).leaves
    return np.concatenate([NO_MEMBERS, *(find_state(view, leaf.pod_group).scheduled for leaf in leaves)])


def is_ready(view: Fork, tree: GroupTree, extra: GroupKey | None = None) -> bool:
    """Return whether enough pods of the group exist, or enough of its groups are ready. `extra` counts one pod more."""
    if not tree.key.composite:
        return find_state(view, tree.pod_group).size + (tree.pod_group == extra) >= tree.min_count
    return sum(is_ready(view, child, extra) for child in tree.children) >= tree.min_count


def _index_composites(groups: Iterable[CompositePodGroup]) -> dict[EntityKey, CompositePodGroup]:
    """Index CompositePodGroups by key."""
    return {entity_key_of_composite(group.metadata.namespace, group.metadata.name): group for group in groups}


def _index_by_parent(
    groups: Iterable[PodGroup], composites: Iterable[CompositePodGroup]
) -> dict[EntityKey, tuple[EntityKey, ...]]:
    """Index the keys of groups by their parent."""
    children: dict[EntityKey, list[EntityKey]] = {}
    named: list[tuple[EntityKey, AnyGroup]] = [(entity_key_of_pod_group(_group_key(group)), group) for group in groups]
    named += [(entity_key_of_composite(*_group_key(group)), group) for group in composites]
    for key, group in named:
        parent = find_parent_key(group)
        if parent is not None:
            children.setdefault(parent, []).append(key)
    return {parent: tuple(sorted(of, key=lambda key: (key.name, key.kind))) for parent, of in children.items()}


def _group_key(group: AnyGroup) -> GroupKey:
    """Return namespace and name of a group."""
    return group.metadata.namespace, group.metadata.name
