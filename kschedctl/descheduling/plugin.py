"""What a plugin of the descheduler is: a class with its arguments that evicts pods in a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from kschedctl.api.arrays import Bools, Position, Rows
from kschedctl.descheduling.arguments import PluginArguments
from kschedctl.descheduling.evictions import EvictionCounter, EvictionResult
from kschedctl.descheduling.evictor import DefaultEvictor
from kschedctl.descheduling.node_fit import NodeFit
from kschedctl.descheduling.seen_pods import SeenPods

A = TypeVar("A", bound=PluginArguments)


class DeschedulingRound(NamedTuple):
    """The cluster in a round, and the means of one profile to change it; ``ended``: of pods that have ended."""

    seen: SeenPods
    fit: NodeFit
    evictor: DefaultEvictor
    evictions: EvictionCounter
    ended: DeschedulingRound | None = None


class DeschedulerPlugin(ABC, Generic[A]):
    """``name``: as policies have it."""

    name: str

    def __init__(self, arguments: A, here: DeschedulingRound) -> None:
        self.arguments, self.here = arguments, here
        self.seen, self.view = here.seen, here.seen.view

    @abstractmethod
    def run(self) -> None:
        """Evict what the plugin wants evicted."""

    def evict(self, position: int) -> EvictionResult:
        return self.here.evictions.evict(Position(position), self.name)

    def evictable(self, selected: Bools, *, finally_too: bool = True) -> Rows:
        """The positions of pods of the infos selected (T,) on nodes that count, which may be evicted; by node.

        ``finally_too``: what is asked right before an eviction is asked at once.
        """
        chosen = self.here.evictor.evictable & self.seen.on_ready & selected[self.seen.info]
        positions = self.seen.by_node(chosen)
        return positions[self.here.evictor.passes(positions)] if finally_too else positions

    def all_sides(self) -> list[Self]:
        """The plugin for pods that run, and for those that have ended."""
        return [self, type(self)(self.arguments, self.here.ended)] if self.here.ended else [self]

    def evict_node_by_node(self, positions: Iterable[int]) -> None:
        """Pods sorted by node: those of a node up to its limit, and no more once the limit of all is reached."""
        self.evict_of_all_sides((self, position) for position in positions)

    def evict_of_all_sides(self, candidates: Iterable[tuple[Self, int]]) -> None:
        """The same of pods of any side."""
        full = -1
        for side, position in candidates:
            row = int(side.view.node[position])
            if row == full:
                continue
            result = side.evict(position)
            if result is EvictionResult.TOTAL_LIMIT:
                return
            if result is EvictionResult.NODE_LIMIT:
                full = row

    def pairs(self, positions: Rows) -> tuple[Rows, Rows, Rows]:
        """The distinct (info, row) of pods, and for each pod which of them it is of."""
        numbers, rows = self.seen.info[positions], self.view.node[positions].astype(np.int64)
        codes, which = np.unique(numbers * len(self.view.nodes) + rows, return_inverse=True)
        return codes // len(self.view.nodes), codes % len(self.view.nodes), which


AnyDeschedulerPlugin = DeschedulerPlugin[Any]
