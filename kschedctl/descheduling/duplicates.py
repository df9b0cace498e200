"""The descheduler plugin RemoveDuplicates.

Upstream: pkg/framework/plugins/removeduplicates.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.objects import Pod
from kschedctl.descheduling.arguments import RemoveDuplicatesArgs
from kschedctl.descheduling.evictions import EvictionResult
from kschedctl.descheduling.plugin import DeschedulerPlugin

MIN_TARGET_NODES = 2
"""With fewer target nodes, nothing is evicted."""


class DuplicateOwner(NamedTuple):
    """An owner of pods that run certain images."""

    namespace: str
    kind: str
    name: str
    images: tuple[str, ...]


Duplicates = Mapping[DuplicateOwner, dict[int, list[int]]]
"""Owner -> row -> the positions of all its pods there except the first."""


class RemoveDuplicates(DeschedulerPlugin[RemoveDuplicatesArgs]):
    """A plugin that evicts pods if their owner has more than an even share of pods on a node."""

    name = "RemoveDuplicates"

    def run(self) -> None:
        """Evict the pods of each owner that exceed an even share per target node.

        Pods count as having the same owner only if they also have the same images.
        """
        positions = self.find_evictable_pods(self.seen.select_matching_infos(self.arguments.namespaces, labels=None))
        info_numbers = self.seen.info[positions].tolist()
        pod_counts = Counter(owner for number in info_numbers for owner in self._owners_by_info[number])
        self._evict_duplicates(self._find_duplicate_pods(positions), pod_counts)

    def _find_duplicate_pods(self, positions: Rows) -> Duplicates:
        """Group the duplicates among the pods at these positions by owner and node.

        A pod is a duplicate if an earlier pod on its node has the same owners.
        """
        info_numbers, rows = self.seen.info[positions].tolist(), self.view.node[positions].tolist()
        duplicates: Duplicates = defaultdict(lambda: defaultdict(list))
        owners_on_node: set[tuple[int, Sequence[DuplicateOwner]]] = set()
        for position, info_number, row in zip(positions.tolist(), info_numbers, rows, strict=True):
            owners = self._owners_by_info[info_number]
            if (row, owners) in owners_on_node:
                for owner in owners:
                    duplicates[owner][row].append(position)
            owners_on_node.add((row, owners))
        return duplicates

    def _evict_duplicates(self, duplicates: Duplicates, pod_counts: Mapping[DuplicateOwner, int]) -> None:
        """Evict the pods of each owner that exceed an even share per target node, until the total limit is reached.

        ``pod_counts`` has the number of evictable pods of each owner. Owners with too few target nodes are skipped.
        """
        report_progress = self.begin_evictions(len(duplicates))
        for owner, positions_by_row in duplicates.items():
            report_progress(1)
            all_positions = [position for positions in positions_by_row.values() for position in positions]
            target_count = int(np.count_nonzero(self._find_target_nodes(all_positions)))
            if target_count < MIN_TARGET_NODES:
                continue
            share = -(-pod_counts[owner] // target_count)  # rounded up
            for positions in positions_by_row.values():
                surplus = positions[share - 1 :]  # the owner's first pod on the node is not among its duplicates
                if self._evict_pods_until_limit(surplus) is EvictionResult.TOTAL_LIMIT:
                    return

    def _evict_pods_until_limit(self, positions: Sequence[int]) -> EvictionResult | None:
        """Evict pods of a node until the node's limit or the total limit is reached.

        Return the result that names the limit, or None if no limit was reached.
        """
        for position in positions:
            result = self.request_eviction(position)
            if result in (EvictionResult.NODE_LIMIT, EvictionResult.TOTAL_LIMIT):
                return result
        return None

    def _find_target_nodes(self, positions: Sequence[int]) -> Bools:
        """Return an (N,) mask of the ready nodes on which one of these pods may run by affinity and tolerations.

        Pods that may run on fewer than MIN_TARGET_NODES nodes are disregarded.
        """
        targets = np.zeros(len(self.view.nodes), np.bool_)
        for info_number in np.unique(self.seen.info[positions]).tolist():
            permitted = self.current_round.fit.find_nodes_by_affinity_and_taints(info_number) & self.seen.ready
            if np.count_nonzero(permitted) >= MIN_TARGET_NODES:
                targets |= permitted
        return targets

    @cached_property
    def _owners_by_info(self) -> list[tuple[DuplicateOwner, ...]]:
        """The owners of the pods of each PodInfo, by the number of the PodInfo."""
        return [self._find_duplicate_owners(info.pod) for info in self.seen.infos]

    def _find_duplicate_owners(self, pod: Pod) -> tuple[DuplicateOwner, ...]:
        """Return the sorted owners of a pod with its images, or an empty tuple if an owner has an excluded kind."""
        owners = pod.metadata.owner_references
        images = tuple(sorted(container.image for container in pod.spec.containers))
        if any(owner.kind in self.arguments.exclude_owner_kinds for owner in owners):
            return ()
        return tuple(sorted(DuplicateOwner(pod.metadata.namespace, owner.kind, owner.name, images) for owner in owners))
