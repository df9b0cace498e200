"""Limits on the cores, memory and GPUs of all nodes together.

Upstream: resourcequotas/tracker.go and cache.go, core/scaledown/resource/limits.go (1.36). A node counts with its
capacity: whole cores rounded up, bytes of memory, and GPUs by the type in its label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.api.copying import replace
from kschedctl.api.objects import Node
from kschedctl.autoscaling.cluster_autoscaler.nodes import GPU, get_capacity
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions

Amounts = dict[str, int]


class ResourceTracker:
    """A tracker of how much of each limited resource remains.

    All nodes of a group count as much as the first that is counted, which may be the template.
    """

    def __init__(self, options: AutoscalerOptions, nodes: Iterable[Node], of_node: Mapping[str, str]) -> None:
        self.options = options
        self._amounts_by_group: dict[str, Amounts] = {}
        maxima = {name: limit.max for name, limit in options.resource_limits.items() if limit.max is not None}
        self.remaining: Amounts = dict(maxima)
        for node in nodes:
            if not _is_virtual(node):
                self._subtract(self.get_node_amounts(of_node.get(node.metadata.name), node), 1)

    @classmethod
    def above_minimum(
        cls, options: AutoscalerOptions, nodes: Iterable[Node], of_node: Mapping[str, str]
    ) -> ResourceTracker:
        """Create a tracker of the amounts above the minimums, which scale-down may remove."""
        tracker = cls(replace(options, resource_limits={}), (), {})
        minima = {name: limit.min for name, limit in options.resource_limits.items() if limit.min is not None}
        tracker.remaining = {name: -least for name, least in minima.items()}
        for node in nodes:
            if not _is_virtual(node):
                amounts = tracker.get_node_amounts(of_node.get(node.metadata.name), node)
                tracker.remaining = {name: amount + amounts.get(name, 0) for name, amount in tracker.remaining.items()}
        return tracker

    def get_node_amounts(self, group: str | None, node: Node) -> Amounts:
        """Return the amounts that a node counts for. They are the same for all nodes of a group."""
        if group is None:
            return count_amounts(node, self.options)
        if group not in self._amounts_by_group:
            self._amounts_by_group[group] = count_amounts(node, self.options)
        return self._amounts_by_group[group]

    def find_exceeded_limits(self, group: str, node: Node, count: int) -> tuple[str, ...]:
        """Return the resources whose limits ``count`` more nodes of the group would exceed."""
        amounts = self.get_node_amounts(group, node)
        exceeded = [
            name
            for name, remaining in self.remaining.items()
            if amounts.get(name) and amounts[name] * count > remaining
        ]
        return tuple(sorted(exceeded))

    def limit_node_count(self, group: str, node: Node, count: int) -> int:
        """Return how many of ``count`` more nodes of the group the limits allow."""
        amounts = self.get_node_amounts(group, node)
        for name, remaining in self.remaining.items():
            if amount := amounts.get(name, 0):
                count = min(count, max(remaining, 0) // amount)
        return count

    def charge_nodes(self, group: str, node: Node, count: int) -> None:
        """Charge ``count`` more nodes of a group to the limits."""
        self._subtract(self.get_node_amounts(group, node), count)

    def _subtract(self, amounts: Amounts, count: int) -> None:
        """Subtract the amounts of ``count`` nodes from what remains."""
        for name in self.remaining:
            self.remaining[name] -= amounts.get(name, 0) * count


def _is_virtual(node: Node) -> bool:
    """Return whether the node is one of Virtual Kubelet's, which the limits do not count."""
    return node.metadata.labels.get("type") == "virtual-kubelet"


def count_amounts(node: Node, options: AutoscalerOptions) -> Amounts:
    """Compute the amounts that a node counts for against the limits."""
    capacity = get_capacity(node)
    amounts = {"cpu": -(-capacity.get("cpu", 0) // 1000), "memory": capacity.get("memory", 0), "nodes": 1}
    gpu_type = node.metadata.labels.get(options.gpu_label)
    if gpu_type is not None and capacity.get(GPU):
        amounts[gpu_type] = capacity[GPU]
    return amounts
