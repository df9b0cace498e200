"""The descheduler plugins LowNodeUtilization and HighNodeUtilization, which compare the requests of nodes' pods.

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
from kschedctl.api.tolerations import find_untolerated_taint
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
    """Nodes split by their utilization."""

    low: Bools
    """Nodes below the thresholds, as an (N,) mask."""
    counterparts: Bools
    """Nodes that exchange pods with them, as an (N,) mask."""


class _Utilization(DeschedulerPlugin[U]):
    """The base of both plugins, which moves pods from source nodes to destination nodes."""

    def run(self) -> None:
        """Evict pods from the source nodes as long as the destination nodes have free capacity.

        Nothing is evicted if at most numberOfNodes nodes, or all ready nodes, have a low utilization. Nothing is
        evicted either if there are no nodes to exchange pods with the nodes of low utilization.
        """
        split, upper_thresholds = self._split_nodes_by_utilization()
        low_count = int(split.low.sum())
        if low_count <= self.arguments.number_of_nodes or low_count == int(self.seen.ready.sum()):
            return
        if not split.counterparts.any():
            return

        limits = self._compute_usage_limits(upper_thresholds)
        sources, destinations = self._choose_sources_and_destinations(split)
        room = (limits - self.usage)[destinations].sum(axis=0)
        sorted_rows = self._sort_sources(sources)
        report_progress = self.begin_evictions(len(sorted_rows))
        for row in sorted_rows:
            report_progress(1)
            if self._evict_from_node(row, limits[row], room, destinations) is EvictionResult.TOTAL_LIMIT:
                return

    @abstractmethod
    def _split_nodes_by_utilization(self) -> tuple[NodeSplit, Mapping[str, float]]:
        """Return the nodes with low utilization and their counterparts, and the limits on utilization.

        The limits are percentages by resource, up to which a node may be used.
        """

    @abstractmethod
    def _choose_sources_and_destinations(self, split: NodeSplit) -> tuple[Bools, Bools]:
        """Return the source nodes, which pods leave, and the destination nodes, to which they may go, as (N,) masks."""

    @abstractmethod
    def _sort_sources(self, sources: Bools) -> Sequence[int]:
        """Return the rows of the source nodes in the order in which pods are evicted from them."""

    @abstractmethod
    def _should_lose_more_pods(self, usage: Counts, limits: Counts) -> bool:
        """Return whether a node with this usage should lose further pods.

        ``usage`` and ``limits``, (R,), are its requested amounts and the amounts up to which it may be used.
        """

    @property
    def _selected_infos(self) -> Bools:
        """The PodInfos whose pods the plugin may evict, as a (T,) mask."""
        return np.ones(len(self.seen.infos), np.bool_)

    # -- utilization of nodes ---------------------------------------------------------------------------------------

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """The names of the R resources for which usage is compared."""
        return self.arguments.resources

    @cached_property
    def usage(self) -> Counts:
        """The requests of each node's pods for the compared resources, (N, R). They change with evictions."""
        return self._select_compared_resources(self.view.requested)

    @cached_property
    def _allocatable(self) -> Counts:
        """The allocatable amounts of the compared resources on each node, (N, R)."""
        return self._select_compared_resources(self.view.allocatable)

    def _select_compared_resources(self, amounts: Counts) -> Counts:
        """Return the columns of ``amounts`` for the compared resources, with zeros for resources that no node has."""
        columns = self.view.resources
        zeros = np.zeros(len(amounts), np.int64)
        selected = [amounts[:, columns[name]] if name in columns else zeros for name in self.resource_names]
        return np.stack(selected, axis=1)

    @cached_property
    def percentages(self) -> Percentages:
        """The usage in percent of the allocatable amounts, (nodes, resources). It is 0 if nothing is allocatable."""
        is_offered = self._allocatable > 0
        divisor = np.where(is_offered, self._allocatable, 1)
        percentages: Percentages = np.where(is_offered, self.usage / divisor * FULL, 0.0)
        return percentages

    def _find_exceeding_nodes(self, thresholds: Mapping[str, float]) -> Bools:
        """Return an (N,) mask of the nodes whose usage of any resource is above its threshold in percent."""
        is_exceeding = np.zeros(len(self.view.nodes), np.bool_)
        for name, percent in thresholds.items():
            is_exceeding |= self.percentages[:, self.resource_names.index(name)] > percent
        return is_exceeding

    def _compute_usage_limits(self, thresholds: Mapping[str, float]) -> Counts:
        """Convert thresholds in percent by resource to the amounts up to which each node may be used, (N, R).

        A resource without a threshold may be used up.
        """
        percentages = np.array([thresholds.get(name, -1.0) for name in self.resource_names])  # -1 for no threshold
        amounts = (percentages * 0.01 * self._allocatable).astype(np.int64)
        return np.where(percentages >= 0, amounts, self._allocatable)

    # -- evictions ---------------------------------------------------------------------------------------------------

    def _evict_from_node(self, row: int, limits: Counts, room: Counts, destinations: Bools) -> EvictionResult | None:
        """Evict pods from a node while the node should lose pods and the destinations have free capacity.

        The requests of evicted pods are subtracted in place from ``room`` (R,), the destinations' shared free capacity,
        and from the node's usage. If the policy's node or total limit denied an eviction, return its result. Otherwise,
        return None.
        """
        usage = self.usage[row]
        evicted_count = 0
        for position in self._evictable_positions_by_row.get(row, ()):
            if not self._should_lose_more_pods(usage, limits) or (room <= 0).any():
                return None
            if evicted_count == self._max_evictions_per_node:
                return None
            if not self._can_pod_be_moved(position, destinations):
                continue
            result = self.request_eviction(position)
            if result in (EvictionResult.NODE_LIMIT, EvictionResult.TOTAL_LIMIT):
                return result
            if result is EvictionResult.EVICTED:
                evicted_count += 1
                requests = self._requests[self.seen.info[position]]
                usage -= requests
                room -= requests
        return None

    @property
    def _max_evictions_per_node(self) -> int | None:
        """The plugin's own maximum number of evictions from a node, or None if it is unlimited."""
        return None

    @cached_property
    def _evictable_positions_by_row(self) -> dict[int, list[int]]:
        """The positions of each node's evictable pods in the order of eviction, by the node's row."""
        positions = self.seen.sort_positions_by_priority(
            self.find_evictable_pods(self._selected_infos, pre_eviction=False)
        )
        by_row: dict[int, list[int]] = {}
        for position, row in zip(positions.tolist(), self.view.node[positions].tolist(), strict=True):
            by_row.setdefault(row, []).append(position)
        return by_row

    @cached_property
    def _requests(self) -> Counts:
        """The requests of the pods of each PodInfo for the compared resources, (T, R)."""
        requests = self._select_compared_resources(self.view.requests)
        requests[:, self.resource_names.index(PODS)] = 1
        return requests

    def _can_pod_be_moved(self, position: int, destinations: Bools) -> bool:
        """Return whether a pod passes PreEvictionFilter and tolerates the taints of at least one destination.

        Pods in namespaces that the arguments exclude cannot be moved.
        """
        pod = self.seen.get_info(position).pod
        namespaces = self.arguments.evictable_namespaces
        if namespaces is not None and pod.metadata.namespace in namespaces.exclude:
            return False
        if not self._tolerates_destination(pod, destinations):
            return False
        (passes,) = self.current_round.evictor.find_pods_passing_pre_eviction(np.array([position]))
        return bool(passes)

    def _tolerates_destination(self, pod: Pod, destinations: Bools) -> bool:
        """Return whether the pod tolerates all taints of at least one destination node.

        As in upstream, the pod must also have at least as many tolerations as the node has taints.
        """
        taint_sets, taint_set_of_node = self.view.nodes.taint_sets
        tolerations = pod.spec.tolerations
        return any(
            len(tolerations) >= len(taint_sets[set_number])
            and find_untolerated_taint(taint_sets[set_number], tolerations, comparison_operators=True) is None
            for set_number in np.unique(taint_set_of_node[destinations]).tolist()
        )

    def _sort_nodes_by_usage(self, nodes: Bools, *, fullest_first: bool) -> list[int]:
        """Return the rows of the nodes in a mask, sorted by the sum of their usage of all compared resources.

        With ``fullest_first``, the highest usage comes first, otherwise the lowest.
        """
        rows: Rows = np.flatnonzero(nodes)
        usage = self.usage[rows].sum(axis=1)
        order = np.argsort(-usage if fullest_first else usage, kind="stable")
        sorted_rows: list[int] = rows[order].tolist()
        return sorted_rows


class LowNodeUtilization(_Utilization[LowNodeUtilizationArgs]):
    """A plugin that evicts pods from overutilized nodes as long as underutilized nodes have room."""

    name = "LowNodeUtilization"

    def _split_nodes_by_utilization(self) -> tuple[NodeSplit, Mapping[str, float]]:
        """Return the schedulable underutilized nodes and the overutilized nodes, and the upper thresholds."""
        lower, upper = self._compute_thresholds()
        low = self.seen.ready & ~self.view.nodes.unschedulable & ~self._find_exceeding_nodes(lower)
        overutilized = self.seen.ready & ~low & self._find_exceeding_nodes(upper)
        return NodeSplit(low, overutilized), upper

    def _compute_thresholds(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return the lower and the upper thresholds in percent, by resource.

        With useDeviationThresholds, the configured thresholds are deviations from the average usage.
        """
        lower, upper = self.arguments.thresholds, self.arguments.target_thresholds
        if not self.arguments.use_deviation_thresholds:
            return lower, upper
        average = self._compute_average_percentages(lower)
        lower_percentages = {name: _limit_percentage(average[name] - percent) for name, percent in lower.items()}
        upper_percentages = {name: _limit_percentage(average[name] + percent) for name, percent in upper.items()}
        return lower_percentages, upper_percentages

    def _compute_average_percentages(self, names: Iterable[str]) -> dict[str, float]:
        """Return the average usage of each resource in percent, over the ready nodes that have the resource.

        The average is 0 if no ready node has it.
        """
        nodes = self.view.nodes.objects
        averages = {}
        for name in names:
            has_resource = np.array([name in (node.status.allocatable or {}) for node in nodes], np.bool_)
            percentages = self.percentages[has_resource & self.seen.ready, self.resource_names.index(name)]
            averages[name] = float(percentages.sum() / len(percentages)) if len(percentages) else 0.0
        return averages

    def _choose_sources_and_destinations(self, split: NodeSplit) -> tuple[Bools, Bools]:
        """Return overutilized nodes as sources and underutilized nodes as destinations."""
        return split.counterparts, split.low

    def _sort_sources(self, sources: Bools) -> Sequence[int]:
        """Return the rows of the source nodes, the fullest node first."""
        return self._sort_nodes_by_usage(sources, fullest_first=True)

    def _should_lose_more_pods(self, usage: Counts, limits: Counts) -> bool:
        """Return whether the node is still overutilized."""
        return bool((usage > limits).any())

    @property
    def _max_evictions_per_node(self) -> int | None:
        """The configured maximum number of evictions from a node, or None if it is unlimited."""
        limits = self.arguments.eviction_limits
        return limits.node if limits else None


def _limit_percentage(percent: float) -> float:
    """Return the nearest number from 0 to 100."""
    return min(max(percent, 0.0), FULL)


class HighNodeUtilization(_Utilization[HighNodeUtilizationArgs]):
    """A plugin that evicts pods from underutilized nodes as long as other nodes have room."""

    name = "HighNodeUtilization"

    def _split_nodes_by_utilization(self) -> tuple[NodeSplit, Mapping[str, float]]:
        """Return the underutilized nodes and the other schedulable nodes, which may be filled completely."""
        low = self.seen.ready & ~self._find_exceeding_nodes(self.arguments.thresholds)
        other_nodes = self.seen.ready & ~low & ~self.view.nodes.unschedulable
        return NodeSplit(low, other_nodes), dict.fromkeys(self.arguments.thresholds, FULL)

    def _choose_sources_and_destinations(self, split: NodeSplit) -> tuple[Bools, Bools]:
        """Return underutilized nodes as sources and the other nodes as destinations."""
        return split.low, split.counterparts

    def _sort_sources(self, sources: Bools) -> Sequence[int]:
        """Return the rows of the source nodes, the emptiest node first."""
        return self._sort_nodes_by_usage(sources, fullest_first=False)

    def _should_lose_more_pods(self, usage: Counts, limits: Counts) -> bool:
        """Return True, because nodes are emptied completely."""
        return True

    @property
    def _selected_infos(self) -> Bools:
        """The PodInfos whose pods the plugin may evict, as a (T,) mask.

        With the mode OnlyThresholdingResources, these are pods that request a resource with a threshold.
        """
        if ONLY_THRESHOLDING not in self.arguments.eviction_modes:
            return super()._selected_infos
        return self.seen.select_infos(self._requests_threshold_resource)

    def _requests_threshold_resource(self, pod: Pod) -> bool:
        """Return whether a container or init container of the pod requests a resource that has a threshold."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(
            name in container.resources.requests for container in containers for name in self.arguments.thresholds
        )
