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
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, find_pod_group, state_of
from kschedctl.scheduler.framework import PluginError
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import GroupKey

DEEPEST = 4
"""How many levels a tree may have, its PodGroups among them: WorkloadMaxTreeDepth."""
NO_SNAPSHOT = "failed to build hierarchy snapshot: "
NO_POD_GROUP = NO_SNAPSHOT + "pod group object not found in state for {}"
NO_COMPOSITE = NO_SNAPSHOT + "composite pod group object not found in state for {}"
CYCLE = NO_SNAPSHOT + "cycle detected in composite pod group hierarchy: {}"


class EntityKey(NamedTuple):
    """What upstream calls a group by; a PodGroup and a CompositePodGroup may share a name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def composite(self) -> bool:
        return self.kind == "compositepodgroup"


def pod_group_key(key: GroupKey) -> EntityKey:
    return EntityKey("podgroup", *key)


def composite_key(namespace: str, name: str) -> EntityKey:
    return EntityKey("compositepodgroup", namespace, name)


@dataclass(frozen=True)
class GroupTree:
    """A group with those that are of it, by name; a PodGroup has none."""

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
        """It and all that is below it."""
        yield self
        for child in self.children:
            yield from child.nodes

    @property
    def least(self) -> int:
        """How many of its pods or groups have to have nodes; one of those of a group without a gang policy."""
        return least_of(self.group)

    @property
    def pod_group(self) -> GroupKey:
        """By what a PodGroup is known elsewhere."""
        return self.key.namespace, self.key.name


def least_of(group: AnyGroup) -> int:
    gang = group.spec.scheduling_policy.gang
    if gang is None:
        return 1
    return gang.min_count if isinstance(group, PodGroup) else gang.min_group_count  # type: ignore[union-attr]


def find_composite(view: Fork, key: EntityKey) -> CompositePodGroup | None:
    found: CompositePodGroup | None = view.objects.index("composite pod groups", _by_key, "CompositePodGroup").get(key)
    return found


def find_group(view: Fork, key: EntityKey) -> AnyGroup | None:
    return find_composite(view, key) if key.composite else find_pod_group(view, (key.namespace, key.name))


def parent_of(group: AnyGroup) -> EntityKey | None:
    name = group.spec.parent_composite_pod_group_name
    return None if name is None else composite_key(group.metadata.namespace, name)


def root_of(view: Fork, key: EntityKey) -> EntityKey | None:
    """The root of the tree of a group; None where an object on the way is missing, or it leads round in a circle."""
    seen: set[EntityKey] = set()
    while key not in seen:
        seen.add(key)
        group = find_group(view, key)
        if group is None:
            return None
        parent = parent_of(group)
        if parent is None:
            return key
        key = parent
    return None


def ancestry(view: Fork, key: GroupKey) -> Iterator[tuple[EntityKey, AnyGroup]]:
    """A PodGroup and those above it, as far as they are there: the last is the root of a tree that is whole."""
    at: EntityKey | None = pod_group_key(key)
    seen: set[EntityKey] = set()
    while at is not None and at not in seen and len(seen) < DEEPEST:
        seen.add(at)
        group = find_group(view, at)
        if group is None:
            return
        yield at, group
        at = parent_of(group) if view.settings.groups_of_groups else None


def tree_of(view: Fork, key: GroupKey) -> GroupTree:
    """The whole tree that a PodGroup is of. Raises PluginError with what PreEnqueue says where it cannot be built."""
    group = find_pod_group(view, key)
    if group is None:
        raise PluginError(NO_POD_GROUP.format(pod_group_key(key)))
    start = parent_of(group)
    if start is None:
        return GroupTree(pod_group_key(key), group)
    top = _top(view, start)
    circular = _in_circle(view, top, set())
    if circular is not None:
        raise PluginError(CYCLE.format(circular))
    composite = find_composite(view, top)
    if composite is None or parent_of(composite) is not None:
        raise PluginError(NO_COMPOSITE.format(start))
    return _below(view, top, composite)


def composite_tree(view: Fork, key: GroupKey) -> GroupTree | None:
    """The tree of a PodGroup that is of a group of groups, None for any other, and where it cannot be built."""
    group = find_pod_group(view, key) if view.settings.groups_of_groups else None
    if group is None or parent_of(group) is None:
        return None
    try:
        return tree_of(view, key)
    except PluginError:
        return None


def orders(tree: GroupTree) -> Iterator[GroupTree]:
    """It with its groups in each order, as it is first."""
    for children in permutations(tree.children):
        for of_children in product(*map(orders, children)):
            yield replace(tree, children=of_children)


def _top(view: Fork, key: EntityKey) -> EntityKey:
    """As far up as it looks. Raises PluginError for one on the way that is missing."""
    for _ in range(DEEPEST - 1):
        composite = find_composite(view, key)
        if composite is None:
            raise PluginError(NO_COMPOSITE.format(key))
        parent = parent_of(composite)
        if parent is None:
            break
        key = parent
    return key


def _in_circle(view: Fork, key: EntityKey, seen: set[EntityKey]) -> EntityKey | None:
    """The first group that is met twice on the way down."""
    if key in seen:
        return key
    seen.add(key)
    below = (_in_circle(view, child, seen) for child in _children(view, key) if child.composite)
    return next((circular for circular in below if circular is not None), None)


def _below(view: Fork, key: EntityKey, composite: CompositePodGroup) -> GroupTree:
    children = []
    for child in _children(view, key):
        if child.composite:
            of_groups = find_composite(view, child)
            assert of_groups is not None  # it names its parent
            children.append(_below(view, child, of_groups))
        else:
            group = find_pod_group(view, (child.namespace, child.name))
            assert group is not None
            children.append(GroupTree(child, group))
    return GroupTree(key, composite, tuple(children))


def _children(view: Fork, key: EntityKey) -> tuple[EntityKey, ...]:
    """Those that name it as their parent, by name: upstream takes them as a Go map gives them."""
    found: tuple[EntityKey, ...] = view.objects.index(
        "children of groups", _by_parent, "PodGroup", "CompositePodGroup"
    ).get(key, ())
    return found


def scheduled_below(view: Fork, group: AnyGroup) -> Rows:
    """The positions of the pods of a group, or of all groups below it, that have a node."""
    key = group.metadata.namespace, group.metadata.name
    if isinstance(group, PodGroup):
        return state_of(view, key).scheduled
    leaves = _below(view, composite_key(*key), group).leaves
    return np.concatenate([NO_MEMBERS, *(state_of(view, leaf.pod_group).scheduled for leaf in leaves)])


def is_ready(view: Fork, tree: GroupTree, extra: GroupKey | None = None) -> bool:
    """Whether so many of its pods exist, or so many of its groups are ready, as have to; ``extra``: one pod more."""
    if not tree.key.composite:
        return state_of(view, tree.pod_group).size + (tree.pod_group == extra) >= tree.least
    return sum(is_ready(view, child, extra) for child in tree.children) >= tree.least


def _by_key(groups: Iterable[CompositePodGroup]) -> dict[EntityKey, CompositePodGroup]:
    return {composite_key(group.metadata.namespace, group.metadata.name): group for group in groups}


def _by_parent(
    groups: Iterable[PodGroup], composites: Iterable[CompositePodGroup]
) -> dict[EntityKey, tuple[EntityKey, ...]]:
    children: dict[EntityKey, list[EntityKey]] = {}
    named: list[tuple[EntityKey, AnyGroup]] = [(pod_group_key(_name(group)), group) for group in groups]
    named += [(composite_key(*_name(group)), group) for group in composites]
    for key, group in named:
        parent = parent_of(group)
        if parent is not None:
            children.setdefault(parent, []).append(key)
    return {parent: tuple(sorted(of, key=lambda key: (key.name, key.kind))) for parent, of in children.items()}


def _name(group: AnyGroup) -> GroupKey:
    return group.metadata.namespace, group.metadata.name
