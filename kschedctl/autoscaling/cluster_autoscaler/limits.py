"""Limits on the cores, memory and GPUs of all nodes together.

Upstream: resourcequotas/tracker.go and cache.go, core/scaledown/resource/limits.go (1.36). A node counts with its
capacity: whole cores rounded up, bytes of memory, and GPUs by the type in its label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from kschedctl.api.objects import Node
from kschedctl.autoscaling.cluster_autoscaler.nodes import GPU, get_capacity
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions

Amounts = dict[str, int]
"""Resource -> whole cores, bytes, GPUs or nodes."""


class ResourceTracker:
    """A tracker of the amount of each limited resource that scaling may still add or remove.

    All nodes of a group count with the amounts of the first node counted, which may be the template.
    """

    def __init__(self, options: AutoscalerOptions, remaining: Amounts) -> None:
        self.options = options
        self.remaining = remaining
        self._amounts_by_group: dict[str, Amounts] = {}

    @classmethod
    def build_scale_up_tracker(
        cls, options: AutoscalerOptions, nodes: Iterable[Node], group_by_node: Mapping[str, str]
    ) -> ResourceTracker:
        """Build the tracker for a scale-up: the cluster's maximum of each resource minus what the nodes have.

        ``group_by_node`` maps the names of nodes to their groups. Nodes of virtual kubelets do not count.
        """
        maxima = {name: limit.max for name, limit in options.resource_limits.items() if limit.max is not None}
        tracker = cls(options, dict(maxima))
        for node in nodes:
            if not _is_virtual_kubelet_node(node):
                tracker._add_to_remaining_amounts(
                    tracker.get_node_amounts(group_by_node.get(node.metadata.name), node), -1
                )
        return tracker

    @classmethod
    def build_scale_down_tracker(
        cls, options: AutoscalerOptions, nodes: Iterable[Node], group_by_node: Mapping[str, str]
    ) -> ResourceTracker:
        """Build the tracker for a scale-down: what the nodes have of each resource minus the cluster's minimum.

        ``group_by_node`` maps the names of nodes to their groups. Nodes of virtual kubelets do not count.
        """
        minima = {name: limit.min for name, limit in options.resource_limits.items() if limit.min is not None}
        tracker = cls(options, {name: -minimum for name, minimum in minima.items()})
        for node in nodes:
            if not _is_virtual_kubelet_node(node):
                tracker._add_to_remaining_amounts(
                    tracker.get_node_amounts(group_by_node.get(node.metadata.name), node), 1
                )
        return tracker

    def get_node_amounts(self, group: str | None, node: Node) -> Amounts:
        """Return how much of each resource a node counts for. All nodes of a group count the same."""
        if group is None:
            return measure_node_amounts(node, self.options)
        if group not in self._amounts_by_group:
            self._amounts_by_group[group] = measure_node_amounts(node, self.options)
        return self._amounts_by_group[group]

    def find_exceeded_limits(self, group: str, node: Node, count: int) -> tuple[str, ...]:
        """Return the sorted names of the resources whose remaining amount ``count`` nodes would exceed.

        ``node`` represents the group's nodes. Resources without a limit are never exceeded.
        """
        amounts = self.get_node_amounts(group, node)
        exceeded = [
            name
            for name, remaining in self.remaining.items()
            if amounts.get(name) and amounts[name] * count > remaining
        ]
        return tuple(sorted(exceeded))

    def limit_node_count(self, group: str, node: Node, count: int) -> int:
        """Return how many of up to ``count`` nodes of the group fit into the remaining amounts."""
        amounts = self.get_node_amounts(group, node)
        for name, remaining in self.remaining.items():
            if amount := amounts.get(name, 0):
                count = min(count, max(remaining, 0) // amount)
        return count

    def charge_nodes(self, group: str, node: Node, count: int) -> None:
        """Subtract the amounts of ``count`` nodes of the group from the remaining amounts."""
        self._add_to_remaining_amounts(self.get_node_amounts(group, node), -count)

    def _add_to_remaining_amounts(self, amounts: Amounts, factor: int) -> None:
        """Add a node's amounts, multiplied by ``factor``, to the remaining amounts of limited resources."""
        for name in self.remaining:
            self.remaining[name] += amounts.get(name, 0) * factor


def _is_virtual_kubelet_node(node: Node) -> bool:
    """Return whether the node belongs to Virtual Kubelet. The limits do not count such nodes."""
    return node.metadata.labels.get("type") == "virtual-kubelet"


def measure_node_amounts(node: Node, options: AutoscalerOptions) -> Amounts:
    """Return how much of each resource a node counts for: whole cores, bytes, one node, and GPUs by type."""
    capacity = get_capacity(node)
    cores = math.ceil(Fraction(capacity.get("cpu", 0), 1000))
    amounts = {"cpu": cores, "memory": capacity.get("memory", 0), "nodes": 1}
    gpu_type = node.metadata.labels.get(options.gpu_label)
    if gpu_type is not None and capacity.get(GPU):
        amounts[gpu_type] = capacity[GPU]
    return amounts
