"""The descheduler plugin RemoveDuplicates.

Upstream: pkg/framework/plugins/removeduplicates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools
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


Duplicates = dict[DuplicateOwner, dict[int, list[int]]]
"""Owner -> row -> the positions of all its pods there except the first."""


class RemoveDuplicates(DeschedulerPlugin[RemoveDuplicatesArgs]):
    """A plugin that evicts pods if their owner has more than an even share of pods on a node."""

    name = "RemoveDuplicates"

    def run(self) -> None:
        """Find the owners with several pods on a node, and evict those beyond an even share."""
        positions = self.find_evictable_pods(self.seen.match_infos(self.arguments.namespaces, None))
        occurrences: Counter[DuplicateOwner] = Counter()
        duplicates = Duplicates()
        seen_owners = set[tuple[int, Sequence[DuplicateOwner]]]()
        info, node = self.seen.info[positions].tolist(), self.view.node[positions].tolist()
        for position, info_number, row in zip(positions.tolist(), info, node, strict=True):
            owners = self._owners_by_info[info_number]
            occurrences.update(owners)
            if owners and (row, owners) in seen_owners:  # not the owners' first pod on the node
                for owner in owners:
                    duplicates.setdefault(owner, {}).setdefault(row, []).append(position)
            seen_owners.add((row, owners))
        self._evict_duplicates(duplicates, occurrences)

    def _evict_duplicates(self, duplicates: Duplicates, occurrences: Mapping[DuplicateOwner, int]) -> None:
        """Evict each owner's pods beyond an even share of its target nodes."""
        for owner, by_row in duplicates.items():
            target_count = int(np.count_nonzero(self._find_target_nodes([p for pods in by_row.values() for p in pods])))
            if target_count < MIN_TARGET_NODES:
                continue
            share = -(-occurrences[owner] // target_count)
            for pods in by_row.values():
                if self._evict_until_limit(pods[share - 1 :]) is EvictionResult.TOTAL_LIMIT:
                    return

    def _evict_until_limit(self, positions: Sequence[int]) -> EvictionResult | None:
        """Evict pods of a node until a limit is reached. Return that limit, or None."""
        for position in positions:
            if (result := self.evict(position)) in (EvictionResult.NODE_LIMIT, EvictionResult.TOTAL_LIMIT):
                return result
        return None

    def _find_target_nodes(self, positions: Sequence[int]) -> Bools:
        """Return the nodes that may run these pods as an (N,) mask.

        Pods that only one node may run are disregarded.
        """
        targets = np.zeros(len(self.view.nodes), np.bool_)
        for info_number in np.unique(self.seen.info[positions]).tolist():
            permitted = self.current_round.fit.find_permitted_nodes(info_number) & self.seen.ready
            if np.count_nonzero(permitted) >= MIN_TARGET_NODES:
                targets |= permitted
        return targets

    @cached_property
    def _owners_by_info(self) -> list[tuple[DuplicateOwner, ...]]:
        """The owners of each info's pods."""
        return [self._find_owners(info.pod) for info in self.seen.infos]

    def _find_owners(self, pod: Pod) -> tuple[DuplicateOwner, ...]:
        """Return the owners of a pod, or an empty tuple if one of them has an excluded kind."""
        owners = pod.metadata.owner_references
        images = tuple(sorted(c.image for c in pod.spec.containers))
        if any(owner.kind in self.arguments.exclude_owner_kinds for owner in owners):
            return ()
        return tuple(sorted(DuplicateOwner(pod.metadata.namespace, owner.kind, owner.name, images) for owner in owners))
