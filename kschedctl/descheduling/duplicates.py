"""More pods of an owner on a node than an even share of the nodes that may run them.

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

FEWEST_NODES = 2
"""With fewer to go to nothing is evicted."""


class OwnerOfDuplicates(NamedTuple):
    """An owner, by what its pods run."""

    namespace: str
    kind: str
    name: str
    images: tuple[str, ...]


Duplicates = dict[OwnerOfDuplicates, dict[int, list[int]]]
"""Owner -> row -> the positions of all its pods there but the first."""


class RemoveDuplicates(DeschedulerPlugin[RemoveDuplicatesArgs]):
    """Of each owner no more pods stay on a node than spread evenly."""

    name = "RemoveDuplicates"

    def run(self) -> None:
        positions = self.evictable(self.seen.chosen(self.arguments.namespaces, None))
        occurrences: Counter[OwnerOfDuplicates] = Counter()
        duplicates, first = Duplicates(), set[tuple[int, Sequence[OwnerOfDuplicates]]]()
        info, node = self.seen.info[positions].tolist(), self.view.node[positions].tolist()
        for position, number, row in zip(positions.tolist(), info, node, strict=True):
            owners = self._owners[number]
            occurrences.update(owners)
            if owners and (row, owners) in first:
                for owner in owners:
                    duplicates.setdefault(owner, {}).setdefault(row, []).append(position)
            first.add((row, owners))
        self._evict(duplicates, occurrences)

    def _evict(self, duplicates: Duplicates, occurrences: Mapping[OwnerOfDuplicates, int]) -> None:
        for owner, by_row in duplicates.items():
            nodes = int(np.count_nonzero(self._targets([p for pods in by_row.values() for p in pods])))
            if nodes < FEWEST_NODES:
                continue
            share = -(-occurrences[owner] // nodes)
            for pods in by_row.values():
                if self._evict_some(pods[share - 1 :]) is EvictionResult.TOTAL_LIMIT:
                    return

    def _evict_some(self, positions: Sequence[int]) -> EvictionResult | None:
        """Those of a node, up to a limit; which that was."""
        for position in positions:
            if (result := self.evict(position)) in (EvictionResult.NODE_LIMIT, EvictionResult.TOTAL_LIMIT):
                return result
        return None

    def _targets(self, positions: Sequence[int]) -> Bools:
        """(N,): the nodes that may run such pods, of which there is a choice."""
        targets = np.zeros(len(self.view.nodes), np.bool_)
        for number in np.unique(self.seen.info[positions]).tolist():
            permitted = self.here.fit.permitted(number) & self.seen.ready
            if np.count_nonzero(permitted) >= FEWEST_NODES:
                targets |= permitted
        return targets

    @cached_property
    def _owners(self) -> list[tuple[OwnerOfDuplicates, ...]]:
        """(T,): the owners of each info's pods; none where one of them is of an excluded kind."""
        return [self._of(info.pod) for info in self.seen.infos]

    def _of(self, pod: Pod) -> tuple[OwnerOfDuplicates, ...]:
        owners, images = pod.metadata.owner_references, tuple(sorted(c.image for c in pod.spec.containers))
        if any(owner.kind in self.arguments.exclude_owner_kinds for owner in owners):
            return ()
        return tuple(
            sorted(OwnerOfDuplicates(pod.metadata.namespace, owner.kind, owner.name, images) for owner in owners)
        )
