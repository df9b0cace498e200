"""Terminated pods, which the descheduler may delete. They hold nothing, and no budget counts them."""

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
    """A terminated pod that a plugin deleted in a round."""

    round: int
    plugin: str
    position: Position


@dataclass
class RemovedPods:
    """The terminated pods and which were deleted."""

    view: Fork
    is_deleted: Bools
    """(P,)."""
    removed: list[DeletedPod] = field(default_factory=list)
    denied: list[list[DeniedEviction]] = field(default_factory=list)
    """By round."""

    @classmethod
    def start(cls, view: Fork) -> RemovedPods:
        return cls(view, np.zeros(len(view.pods), np.bool_))

    def build_round_view(
        self, now: int, nodes: Selector, number: int
    ) -> tuple[SeenPods, Callable[[Position, str], str]]:
        """Return the pods as a round sees them, and the function that deletes one for a plugin."""
        seen = SeenPods(self.view, now, nodes=nodes)
        seen.evicted = self.is_deleted

        def remove(position: Position, plugin: str) -> str:
            self.removed.append(DeletedPod(number, plugin, position))
            return ""

        return seen, remove

    def iter_round(self, number: int) -> Iterator[Pod]:
        yield from (self.view.pods.objects[removal.position] for removal in self.removed if removal.round == number)

    def iter_reports(self, nodes: Sequence[str]) -> Iterator[RemovedPod]:
        for number, plugin, position in self.removed:
            pod = self.view.pods.objects[position]
            node = nodes[int(self.view.node[position])]
            yield RemovedPod(pod.key, str(find_owner(pod)), pod.status.phase, plugin, node, number)

    def iter_held(self) -> Iterator[HeldBack]:
        """Yield those that remain because a limit was reached."""
        last = {refusal.position: refusal for refused in self.denied for refusal in refused}
        groups: dict[tuple[str, str], list[str]] = {}
        for position, refusal in last.items():
            if not self.is_deleted[position]:
                groups.setdefault((refusal.plugin, refusal.reason), []).append(self.view.pods.objects[position].key)
        for (plugin, why), names in groups.items():
            yield HeldBack(plugin, why, len(names), tuple(names))


def count_pods(refused: Iterable[DeniedEviction]) -> int:
    """Return how many different pods the denied evictions concern."""
    return len({refusal.position for refusal in refused})
