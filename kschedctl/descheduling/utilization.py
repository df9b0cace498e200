"""Pods of nodes that are fuller, or emptier, than they should be, by what pods request.

Upstream: pkg/framework/plugins/nodeutilization.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.objects import Pod
from kschedctl.api.resource_names import PODS
from kschedctl.api.tolerations import find_untolerated
from kschedctl.descheduling.arguments import (
    ONLY_THRESHOLDING,
    HighNodeUtilizationArgs,
    LowNodeUtilizationArgs,
    UtilizationArguments,
)
from kschedctl.descheduling.evictions import EvictionResult
from kschedctl.descheduling.plugin import DeschedulerPlugin

U = TypeVar("U", bound=UtilizationArguments)
Percentages = npt.NDArray[np.float64]
FULL = 100.0


class NodeSplit(NamedTuple):
    """(N,) each: nodes below the thresholds; those of the others that count on the other side."""

    low: Bools
    others: Bools


class _Utilization(DeschedulerPlugin[U]):
    """What both plugins do: sort nodes in two, and evict from the one kind what the other has room for."""

    def run(self) -> None:
        split, highest = self._split()
        low = int(split.low.sum())
        if low <= self.arguments.number_of_nodes or low == int(self.seen.ready.sum()) or not split.others.any():
            return
        capped = self._capped(highest)
        sources, destinations = self._sides(split)
        left = (capped - self.usage)[destinations].sum(axis=0)
        for row in self._sorted(sources):
            if self._empty(row, capped[row], left, destinations) is EvictionResult.TOTAL_LIMIT:
                return

    @abstractmethod
    def _split(self) -> tuple[NodeSplit, Mapping[str, float]]:
        """The nodes in two, and how full in percent the fuller ones may be."""

    @abstractmethod
    def _sides(self, split: NodeSplit) -> tuple[Bools, Bools]:
        """From where pods go, and where they may come to; (N,) each."""

    @abstractmethod
    def _sorted(self, sources: Bools) -> Sequence[int]:
        """The rows of the nodes from which pods go, in order."""

    @abstractmethod
    def _goes_on(self, usage: Counts, capped: Counts) -> bool:
        """Whether a node of this usage gives more pods away, of what it may have at most (R,)."""

    @property
    def _meant(self) -> Bools:
        """(T,): the infos of pods that may go as far as the plugin is concerned."""
        return np.ones(len(self.seen.infos), np.bool_)

    # -- how full nodes are ------------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        return self.arguments.resources

    @cached_property
    def usage(self) -> Counts:
        """(N, R): what the pods of each node request, of the resources of ``names``."""
        return self._columns(self.view.requested)

    @cached_property
    def _allocatable(self) -> Counts:
        return self._columns(self.view.allocatable)

    def _columns(self, amounts: Counts) -> Counts:
        columns, none = self.view.resources, np.zeros(len(amounts), np.int64)
        return np.stack([amounts[:, columns[name]] if name in columns else none for name in self.names], axis=1)

    @cached_property
    def percentages(self) -> Percentages:
        """(N, R): the share of what nodes offer; nothing where they offer nothing."""
        offered = np.where(self._allocatable > 0, self._allocatable, 1)
        share: Percentages = np.where(self._allocatable > 0, self.usage / offered * FULL, 0.0)
        return share

    def _above(self, thresholds: Mapping[str, float]) -> Bools:
        """(N,): the nodes that are fuller in some resource."""
        above = np.zeros(len(self.view.nodes), np.bool_)
        for name, percent in thresholds.items():
            above |= self.percentages[:, self.names.index(name)] > percent
        return above

    def _capped(self, thresholds: Mapping[str, float]) -> Counts:
        """(N, R): what nodes offer up to the thresholds, all where there is none."""
        shares = np.array([thresholds.get(name, -1.0) for name in self.names])
        capped = (shares * 0.01 * self._allocatable).astype(np.int64)
        return np.where(shares >= 0, capped, self._allocatable)

    # -- evictions ---------------------------------------------------------------------------------------------------

    def _empty(self, row: int, capped: Counts, left: Counts, destinations: Bools) -> EvictionResult | None:
        """Evict from a node while it should give pods away and there is room (``left``) for them."""
        usage, number = self.usage[row], 0
        for position in self._removable.get(row, ()):
            if not self._goes_on(usage, capped) or (left <= 0).any() or number == self._most_of_a_node:
                return None
            if not self._may_go(position, destinations):
                continue
            result = self.evict(position)
            if result in (EvictionResult.NODE_LIMIT, EvictionResult.TOTAL_LIMIT):
                return result
            if result is EvictionResult.EVICTED:
                number += 1
                takes = self._requests[self.seen.info[position]]
                usage -= takes
                left -= takes
        return None

    @property
    def _most_of_a_node(self) -> int | None:
        return None

    @cached_property
    def _removable(self) -> dict[int, list[int]]:
        """Row -> the positions of pods that may be evicted, as evictions go."""
        positions = self.seen.by_priority(self.evictable(self._meant, finally_too=False))
        by_row: dict[int, list[int]] = {}
        for position, row in zip(positions.tolist(), self.view.node[positions].tolist(), strict=True):
            by_row.setdefault(row, []).append(position)
        return by_row

    @cached_property
    def _requests(self) -> Counts:
        """(T, R): what a pod takes of the resources of ``names``."""
        requests = self._columns(self.view.requests)
        requests[:, self.names.index(PODS)] = 1
        return requests

    def _may_go(self, position: int, destinations: Bools) -> bool:
        pod = self.seen.infos[self.seen.info[position]].pod
        excluded = self.arguments.evictable_namespaces
        if excluded is not None and pod.metadata.namespace in excluded.exclude:
            return False
        return self._tolerates(pod, destinations) and bool(self.here.evictor.passes(np.array([position]))[0])

    def _tolerates(self, pod: Pod, destinations: Bools) -> bool:
        """Whether there is a node whose taints it tolerates, of all effects, and has as many tolerations at least."""
        taint_sets, taint_set = self.view.nodes.taint_sets
        tolerations = pod.spec.tolerations
        return any(
            len(tolerations) >= len(taint_sets[number])
            and find_untolerated(taint_sets[number], tolerations, None, True) is None
            for number in np.unique(taint_set[destinations]).tolist()
        )

    def _by_usage(self, nodes: Bools, fullest_first: bool) -> list[int]:
        """The rows of nodes."""
        rows: Rows = np.flatnonzero(nodes)
        usage = self.usage[rows].sum(axis=1)
        ordered: list[int] = rows[np.argsort(-usage if fullest_first else usage, kind="stable")].tolist()
        return ordered


class LowNodeUtilization(_Utilization[LowNodeUtilizationArgs]):
    """From nodes that are too full, as far as nodes that are not full have room."""

    name = "LowNodeUtilization"

    def _split(self) -> tuple[NodeSplit, Mapping[str, float]]:
        lowest, highest = self._thresholds()
        low = self.seen.ready & ~self.view.nodes.unschedulable & ~self._above(lowest)
        return NodeSplit(low, self.seen.ready & ~low & self._above(highest)), highest

    def _thresholds(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        lowest, highest = self.arguments.thresholds, self.arguments.target_thresholds
        if not self.arguments.use_deviation_thresholds:
            return lowest, highest
        average = self._average(lowest)
        return (
            {name: min(max(average[name] - percent, 0.0), FULL) for name, percent in lowest.items()},
            {name: min(max(average[name] + percent, 0.0), FULL) for name, percent in highest.items()},
        )

    def _average(self, names: Iterable[str]) -> dict[str, float]:
        """The mean share of the nodes that have such a resource."""
        nodes, averages = self.view.nodes.objects, {}
        for name in names:
            having = np.array([name in (node.status.allocatable or {}) for node in nodes], np.bool_) & self.seen.ready
            shares = self.percentages[having, self.names.index(name)]
            averages[name] = float(shares.sum() / len(shares)) if len(shares) else 0.0
        return averages

    def _sides(self, split: NodeSplit) -> tuple[Bools, Bools]:
        return split.others, split.low

    def _sorted(self, sources: Bools) -> Sequence[int]:
        return self._by_usage(sources, fullest_first=True)

    def _goes_on(self, usage: Counts, capped: Counts) -> bool:
        return bool((usage > capped).any())

    @property
    def _most_of_a_node(self) -> int | None:
        limits = self.arguments.eviction_limits
        return limits.node if limits else None


class HighNodeUtilization(_Utilization[HighNodeUtilizationArgs]):
    """From nodes that are nearly empty, as far as others have room."""

    name = "HighNodeUtilization"

    def _split(self) -> tuple[NodeSplit, Mapping[str, float]]:
        low = self.seen.ready & ~self._above(self.arguments.thresholds)
        others = self.seen.ready & ~low & ~self.view.nodes.unschedulable
        return NodeSplit(low, others), dict.fromkeys(self.arguments.thresholds, FULL)

    def _sides(self, split: NodeSplit) -> tuple[Bools, Bools]:
        return split.low, split.others

    def _sorted(self, sources: Bools) -> Sequence[int]:
        return self._by_usage(sources, fullest_first=False)

    def _goes_on(self, usage: Counts, capped: Counts) -> bool:
        return True

    @property
    def _meant(self) -> Bools:
        if ONLY_THRESHOLDING not in self.arguments.eviction_modes:
            return super()._meant
        return self.seen.where(self._requests_any)

    def _requests_any(self, pod: Pod) -> bool:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(
            name in container.resources.requests for container in containers for name in self.arguments.thresholds
        )
