"""The health of node groups: how many nodes are ready, and how many requested nodes do not exist yet.

Upstream: clusterstate/clusterstate.go (1.36). In its first loop, a process knows only the scale-ups it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kschedctl.api.objects import Node
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.nodes import NEVER, STARTUP_TIME, get_readiness
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, NodeGroupList

OK_UNREADY, MOST_UNREADY = 3, 0.45
"""--ok-total-unready-count and --max-total-unready-percentage."""


@dataclass
class GroupReadiness:
    """The names of nodes by readiness."""

    ready: list[str] = field(default_factory=list)
    not_started: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)

    @property
    def registered(self) -> int:
        """The number of nodes that exist."""
        return len(self.ready) + len(self.not_started) + len(self.unready)

    def add(self, node: Node, now: int) -> None:
        """Record the node as ready, not started or unready."""
        created = parse_microseconds(node.metadata.creation_timestamp) if node.metadata.creation_timestamp else NEVER
        if get_readiness(node).ready:
            self.ready.append(node.metadata.name)
        elif created + STARTUP_TIME > now:
            self.not_started.append(node.metadata.name)
        else:
            self.unready.append(node.metadata.name)


@dataclass
class ClusterHealth:
    """The readiness of nodes in the whole cluster and in each group."""

    groups: NodeGroupList
    increases: Mapping[str, int]
    """Group -> number of nodes that an unfinished scale-up adds to it."""
    total: GroupReadiness = field(default_factory=GroupReadiness)
    of_group: dict[str, GroupReadiness] = field(default_factory=dict)

    @classmethod
    def assess(
        cls, groups: NodeGroupList, nodes: Sequence[Node], increases: Mapping[str, int], now: int
    ) -> ClusterHealth:
        """Assess the readiness of all nodes, in total and by group."""
        health = cls(groups, increases)
        for node in nodes:
            health.total.add(node, now)
            if group := groups.of_node.get(node.metadata.name):
                health.of_group.setdefault(group.id, GroupReadiness()).add(node, now)
        registered = {node.metadata.name for node in nodes}
        for group in groups.all:  # a node that only the cloud knows is counted, though it is nothing yet
            if not registered.issuperset(group.nodes):
                health.of_group.setdefault(group.id, GroupReadiness())
        return health

    @property
    def cluster_is_healthy(self) -> bool:
        """Whether few enough of all nodes are unready."""
        return not _are_too_many(len(self.total.unready), self.total.registered)

    def is_healthy(self, group: AutoscaledGroup) -> bool:
        """Return whether enough of the group's requested nodes are ready."""
        expected = group.target - self.increases.get(group.id, 0)
        state = self.of_group.get(group.id)
        if state is None:
            return group.target == 0 or (expected == 0 and group.target > 0)
        return not _are_too_many(max(expected - len(state.ready), 0), state.registered)

    def count_upcoming(self) -> dict[str, int]:
        """Return how many requested nodes of each group do not exist yet. Groups that lack none are left out."""
        missing = {group.id: self._count_missing(group) for group in self.groups.all if group.id in self.increases}
        return {name: number for name, number in missing.items() if number > 0}

    def list_not_started(self, group: str) -> list[str]:
        """Return the names of the group's nodes that exist but have not become ready yet."""
        return self.of_group[group].not_started if group in self.of_group else []

    def _count_missing(self, group: AutoscaledGroup) -> int:
        """Return the group's target minus its ready and unready nodes."""
        state = self.of_group.get(group.id, GroupReadiness())
        return group.target - len(state.ready) - len(state.unready)


def _are_too_many(unready: int, total: int) -> bool:
    """Return whether the number of unready nodes among ``total`` is too high."""
    return unready > OK_UNREADY and unready > MOST_UNREADY * total
