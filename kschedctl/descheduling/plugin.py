"""The base class of the descheduler's plugins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sized
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
    """The cluster in one round, with the functions by which one profile evicts pods."""

    seen: SeenPods
    fit: NodeFit
    evictor: DefaultEvictor
    evictions: EvictionCounter
    ended: DeschedulingRound | None = None
    """The round for pods that have ended, if these are evicted as well."""


class DistinctPairs(NamedTuple):
    """The D distinct pairs of a PodInfo and a node among some pods."""

    info_numbers: Rows
    """The number of the PodInfo of each pair, (D,)."""
    rows: Rows
    """The row of the node of each pair, (D,)."""
    pair_index: Rows
    """The index of each pod's pair, one per pod."""


class DeschedulerPlugin(ABC, Generic[A]):
    """A plugin that evicts pods in a round according to its arguments."""

    name: str
    """The plugin's name in policies."""

    def __init__(self, arguments: A, current_round: DeschedulingRound) -> None:
        self.arguments, self.current_round = arguments, current_round
        self.seen, self.view = current_round.seen, current_round.seen.view

    @abstractmethod
    def run(self) -> None:
        """Evict the pods that the plugin selects, within the limits of the policy."""

    def begin_evictions(self, total: int) -> Callable[[int], None]:
        """Start the progress display for `total` pods, or for an unknown number if `total` is 0.

        Return the function that has to be called with the number of pods done.
        """
        return self.current_round.evictions.begin(f"Evictions by {self.name}", total)

    def request_eviction(self, position: int) -> EvictionResult:
        """Request the eviction of the pod at a position on behalf of the plugin, and return the result."""
        return self.current_round.evictions.evict_pod(Position(position), self.name)

    def find_evictable_pods(self, selected: Bools, *, pre_eviction: bool = True) -> Rows:
        """Return the positions of the evictable pods on ready nodes, sorted by node.

        Only pods whose PodInfo is in the (T,) mask ``selected`` are considered. With ``pre_eviction``,
        PreEvictionFilter is applied now. Otherwise, the caller has to apply it before each eviction.
        """
        evictor = self.current_round.evictor
        is_evictable = evictor.evictable & self.seen.on_ready_nodes & selected[self.seen.info]
        positions = self.seen.list_positions_by_node(is_evictable)
        if pre_eviction:
            return positions[evictor.find_pods_passing_pre_eviction(positions)]
        return positions

    def list_plugins_with_ended_pods(self) -> list[Self]:
        """Return this plugin and, if pods that have ended are evicted too, a copy of the plugin for them."""
        if self.current_round.ended is None:
            return [self]
        return [self, type(self)(self.arguments, self.current_round.ended)]

    def evict_node_by_node(self, positions: Iterable[int]) -> None:
        """Evict pods that are sorted by node, up to the limit of each node and the total limit."""
        total = len(positions) if isinstance(positions, Sized) else 0
        self.evict_candidates_node_by_node(((self, position) for position in positions), total)

    def evict_candidates_node_by_node(self, candidates: Iterable[tuple[Self, int]], total: int = 0) -> None:
        """Evict the candidates in order until the total limit is reached.

        Once a node has reached its limit, the candidates that follow on the same node are skipped. Each candidate is a
        pair: the plugin that evicts the pod, and the pod's position. ``total`` is the number of candidates for the
        progress display, or 0 if it is unknown.
        """
        report_progress = self.begin_evictions(total)
        exhausted_row: int | None = None  # the node that has reached its limit
        for plugin, position in candidates:
            report_progress(1)
            row = int(plugin.view.node[position])
            if row == exhausted_row:
                continue
            result = plugin.request_eviction(position)
            if result is EvictionResult.TOTAL_LIMIT:
                return
            if result is EvictionResult.NODE_LIMIT:
                exhausted_row = row

    def find_distinct_pairs(self, positions: Rows) -> DistinctPairs:
        """Find the distinct pairs of PodInfo and node among the pods at these positions, and the pair of each pod."""
        node_count = len(self.view.nodes)
        rows = self.view.node[positions].astype(np.int64)
        codes = self.seen.info[positions] * node_count + rows  # one number for each pair
        distinct_codes, pair_index = np.unique(codes, return_inverse=True)
        return DistinctPairs(distinct_codes // node_count, distinct_codes % node_count, pair_index)


AnyDeschedulerPlugin = DeschedulerPlugin[Any]
