"""How many pods and slices fit into each domain of a topology, level by level.

Upstream: fillInCounts and its helpers of pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kschedctl.queueing.kueue.topology.tree import Counts, TopologyTree

MAX_COUNT = 2**31 - 1
"""The number of pods that fit if no resource limits it."""


class DomainCapacities:
    """What fits into the domains of each level. All arrays have the shape: domains of the level."""

    __slots__ = ("affinity", "leaders", "pods", "pods_with_leader", "slices", "slices_with_leader", "tree")

    def __init__(self, tree: TopologyTree) -> None:
        sizes = [len(level.values) for level in tree.levels]
        self.tree = tree
        self.pods = [np.zeros(size, dtype=np.int64) for size in sizes]
        self.slices = [np.zeros(size, dtype=np.int64) for size in sizes]
        self.pods_with_leader = [np.zeros(size, dtype=np.int64) for size in sizes]
        """The pods that fit together with a leader."""
        self.slices_with_leader = [np.zeros(size, dtype=np.int64) for size in sizes]
        self.leaders = [np.zeros(size, dtype=np.int64) for size in sizes]
        """1 if a leader fits, else 0."""
        self.affinity = [np.zeros(size, dtype=np.int64) for size in sizes]
        """The score of preferred node affinity."""

    def copy(self) -> DomainCapacities:
        """Return an independent copy of the counts. The tree is shared."""
        copy = DomainCapacities.__new__(DomainCapacities)
        copy.tree = self.tree
        for name in ("pods", "slices", "pods_with_leader", "slices_with_leader", "leaders", "affinity"):
            setattr(copy, name, [counts.copy() for counts in getattr(self, name)])
        return copy

    def get_children(self, level: int, index: int) -> range:
        """Return the indexes of a domain's children in the level below."""
        domains = self.tree.levels[level]
        return range(int(domains.child_starts[index]), int(domains.child_ends[index]))

    def list_children(self, level: int, indexes: Sequence[int]) -> list[int]:
        """Return the indexes of all children of these domains in the level below."""
        return [child for index in indexes for child in self.get_children(level, index)]

    def sum_up_levels(
        self,
        slice_size: int,
        slice_level: int,
        *,
        inner_sizes: Mapping[int, int],
        needs_leader: bool,
        top_level: int = 0,
    ) -> None:
        """Compute the counts of each level from the level below, starting with the lowest one, up to ``top_level``.

        Slices are counted at ``slice_level`` and above. ``inner_sizes`` maps a level to the size of its slices within
        slices.
        """
        lowest = len(self.tree.levels) - 1
        for level in range(lowest, top_level - 1, -1):
            if level < lowest:
                self._sum_children(level, inner_sizes.get(level + 1), needs_leader=needs_leader)
            if level == slice_level:
                self.slices[level] = self.pods[level] // slice_size
                self.slices_with_leader[level] = self.pods_with_leader[level] // slice_size

    def _sum_children(self, level: int, inner_size: int | None, *, needs_leader: bool) -> None:
        """Compute the counts of a level as sums of the counts of the level below.

        With ``inner_size``, only whole slices of this size count in the level below. A needed leader is placed in the
        child that can hold it and where it costs the fewest pods or slices.
        """
        below = level + 1
        starts = self.tree.levels[level].child_starts
        if not len(starts):
            return
        pods, pods_with_leader = self.pods[below], self.pods_with_leader[below]
        if inner_size is not None:
            pods, pods_with_leader = pods // inner_size * inner_size, pods_with_leader // inner_size * inner_size
        slices, slices_with_leader = self.slices[below], self.slices_with_leader[below]

        # The children of a domain are next to each other, from its start to the start of the next domain
        self.pods[level] = np.add.reduceat(pods, starts)
        self.slices[level] = np.add.reduceat(slices, starts)
        self.leaders[level] = np.maximum.reduceat(self.leaders[below], starts)
        self.affinity[level] = np.add.reduceat(self.affinity[below], starts)

        may_lead = self.leaders[below] > 0 if needs_leader else np.ones(len(pods), dtype=np.bool_)
        has_place = np.logical_or.reduceat(may_lead, starts)

        def count_beside_leader(totals: Counts, lost: Counts) -> Counts:
            """Return the totals minus the cost of a leader in the best child, or 0 if no child can hold a leader."""
            least_lost = np.minimum.reduceat(np.where(may_lead, lost, MAX_COUNT), starts)
            return np.where(has_place, totals - least_lost, 0)

        self.pods_with_leader[level] = count_beside_leader(self.pods[level], pods - pods_with_leader)
        self.slices_with_leader[level] = count_beside_leader(self.slices[level], slices - slices_with_leader)


def count_fitting_pods(requests: Mapping[str, int], capacity: Mapping[str, Counts], size: int) -> Counts:
    """Return how many pods with these requests fit into each of ``size`` domains, as an array (domains,).

    ``capacity`` has the free amounts by resource. No pod fits if a requested resource is missing, or if the pods
    request nothing.
    """
    if not requests:
        return np.zeros(size, dtype=np.int64)
    counts = np.full(size, MAX_COUNT, dtype=np.int64)
    for resource, amount in requests.items():
        if amount != 0:
            free = capacity.get(resource)
            fitting = np.zeros(size, dtype=np.int64) if free is None else np.maximum(free, 0) // amount
            counts = np.minimum(counts, fitting)
    return counts
