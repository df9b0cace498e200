"""Pods that have ended, which the descheduler may delete: they hold nothing, and no budget counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.labels import Selector
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.commands.rebalance.report import HeldBack, RemovedPod
from kschedctl.descheduling.evictions import DeniedEviction
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.snapshot.fork import Fork


class DeletedPod(NamedTuple):
    """By which plugin, in which round."""

    round: int
    plugin: str
    position: Position


@dataclass
class RemovedPods:
    """``view``: of the pods that have ended; ``gone`` (P,): those that were deleted; ``refused``: by round."""

    view: Fork
    gone: Bools
    removed: list[DeletedPod] = field(default_factory=list)
    refused: list[list[DeniedEviction]] = field(default_factory=list)

    @classmethod
    def of(cls, view: Fork) -> RemovedPods:
        return cls(view, np.zeros(len(view.pods), np.bool_))

    def seen(self, now: int, nodes: Selector, number: int) -> tuple[SeenPods, Callable[[Position, str], str]]:
        """The pods as a round of that number sees them, and who deletes one for a plugin."""
        seen = SeenPods(self.view, now, nodes=nodes)
        seen.evicted = self.gone

        def remove(position: Position, plugin: str) -> str:
            self.removed.append(DeletedPod(number, plugin, position))
            return ""

        return seen, remove

    def of_round(self, number: int) -> Iterator[Pod]:
        yield from (self.view.pods.objects[removal.position] for removal in self.removed if removal.round == number)

    def report(self, nodes: Sequence[str]) -> Iterator[RemovedPod]:
        for number, plugin, position in self.removed:
            pod = self.view.pods.objects[position]
            node = nodes[int(self.view.node[position])]
            yield RemovedPod(pod.key, str(find_owner(pod)), pod.status.phase, plugin, node, number)

    def held(self) -> Iterator[HeldBack]:
        """Those that are still there as a limit was reached."""
        last = {refusal.position: refusal for refused in self.refused for refusal in refused}
        groups: dict[tuple[str, str], list[str]] = {}
        for position, refusal in last.items():
            if not self.gone[position]:
                groups.setdefault((refusal.plugin, refusal.reason), []).append(self.view.pods.objects[position].key)
        for (plugin, why), names in groups.items():
            yield HeldBack(plugin, why, len(names), tuple(names))


def distinct(refused: Iterable[DeniedEviction]) -> int:
    """Of how many pods an eviction was refused."""
    return len({refusal.position for refusal in refused})
