"""The base class of the descheduler's plugins."""

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
    """The cluster in one round, and the means by which one profile evicts pods."""

    seen: SeenPods
    fit: NodeFit
    evictor: DefaultEvictor
    evictions: EvictionCounter
    ended: DeschedulingRound | None = None
    """The round for pods that have ended, if these are evicted as well."""


class DeschedulerPlugin(ABC, Generic[A]):
    """A plugin that evicts pods in a round according to its arguments. ``name`` is its name in policies."""

    name: str

    def __init__(self, arguments: A, current_round: DeschedulingRound) -> None:
        self.arguments, self.current_round = arguments, current_round
        self.seen, self.view = current_round.seen, current_round.seen.view

    @abstractmethod
    def run(self) -> None:
        """Evict the pods that the plugin selects."""

    def evict(self, position: int) -> EvictionResult:
        """Request the eviction of a pod."""
        return self.current_round.evictions.evict(Position(position), self.name)

    def find_evictable_pods(self, selected: Bools, *, pre_eviction: bool = True) -> Rows:
        """Return the positions of the evictable pods of some infos on ready nodes, sorted by node.

        ``selected`` is a (T,) mask of infos. With ``pre_eviction``, PreEvictionFilter is applied at once instead of
        right before each eviction.
        """
        is_chosen = self.current_round.evictor.evictable & self.seen.on_ready_nodes & selected[self.seen.info]
        positions = self.seen.sort_by_node(is_chosen)
        return positions[self.current_round.evictor.check_pre_eviction(positions)] if pre_eviction else positions

    def with_ended_pods(self) -> list[Self]:
        """Return this plugin and, if there are pods that have ended, a copy of the plugin for them."""
        return [self, type(self)(self.arguments, self.current_round.ended)] if self.current_round.ended else [self]

    def evict_node_by_node(self, positions: Iterable[int]) -> None:
        """Evict pods that are sorted by node, up to the limit of each node and the total limit."""
        self.evict_with_plugins((self, position) for position in positions)

    def evict_with_plugins(self, candidates: Iterable[tuple[Self, int]]) -> None:
        """Evict pods like `evict_node_by_node`, each with its own plugin."""
        full_row = -1
        for plugin, position in candidates:
            row = int(plugin.view.node[position])
            if row == full_row:
                continue
            result = plugin.evict(position)
            if result is EvictionResult.TOTAL_LIMIT:
                return
            if result is EvictionResult.NODE_LIMIT:
                full_row = row

    def find_distinct_pairs(self, positions: Rows) -> tuple[Rows, Rows, Rows]:
        """Return the distinct infos and rows of the pods, and the index of each pod's pair."""
        info_numbers = self.seen.info[positions]
        rows = self.view.node[positions].astype(np.int64)
        codes, pair_index = np.unique(info_numbers * len(self.view.nodes) + rows, return_inverse=True)
        return codes // len(self.view.nodes), codes % len(self.view.nodes), pair_index


AnyDeschedulerPlugin = DeschedulerPlugin[Any]
