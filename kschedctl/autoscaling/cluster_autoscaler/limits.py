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

VIRTUAL = ("type", "virtual-kubelet")
Amounts = dict[str, int]


class ResourceTracker:
    """The amount of each limited resource that remains.

    All nodes of a group count as much as the first one that is counted, which may be the template.
    """

    def __init__(self, options: AutoscalerOptions, nodes: Iterable[Node], of_node: Mapping[str, str]) -> None:
        self.options = options
        self._of_group: dict[str, Amounts] = {}
        maxima = {name: limit.max for name, limit in options.resource_limits.items() if limit.max is not None}
        self.remaining: Amounts = dict(maxima)
        for node in nodes:
            if node.metadata.labels.get(VIRTUAL[0]) == VIRTUAL[1]:
                continue
            self._subtract(self.count_node(of_node.get(node.metadata.name), node), 1)

    @classmethod
    def above_minimum(
        cls, options: AutoscalerOptions, nodes: Iterable[Node], of_node: Mapping[str, str]
    ) -> ResourceTracker:
        """Track how much of each resource the cluster has above its minimum and may therefore lose."""
        tracker = cls(replace(options, resource_limits={}), (), {})
        minima = {name: limit.min for name, limit in options.resource_limits.items() if limit.min is not None}
        tracker.remaining = {name: -least for name, least in minima.items()}
        for node in nodes:
            if node.metadata.labels.get(VIRTUAL[0]) != VIRTUAL[1]:
                amounts = tracker.count_node(of_node.get(node.metadata.name), node)
                tracker.remaining = {name: left + amounts.get(name, 0) for name, left in tracker.remaining.items()}
        return tracker

    def count_node(self, group: str | None, node: Node) -> Amounts:
        """Return the amounts that a node counts for, which are the same for all nodes of a group."""
        if group is None:
            return count_amounts(node, self.options)
        if group not in self._of_group:
            self._of_group[group] = count_amounts(node, self.options)
        return self._of_group[group]

    def find_exceeded_limits(self, group: str, node: Node, count: int) -> tuple[str, ...]:
        """Return the resources whose limits would be exceeded by ``count`` more nodes of the group."""
        amounts = self.count_node(group, node)
        return tuple(
            sorted(
                name
                for name, left in self.remaining.items()
                if amounts.get(name, 0) * count > left and amounts.get(name, 0)
            )
        )

    def limit_count(self, group: str, node: Node, count: int) -> int:
        """Return how many of ``count`` more nodes of the group the limits allow."""
        amounts = self.count_node(group, node)
        for name, left in self.remaining.items():
            if amount := amounts.get(name, 0):
                count = min(count, max(left, 0) // amount)
        return count

    def consume(self, group: str, node: Node, count: int) -> None:
        """Charge ``count`` more nodes of a group to the limits."""
        self._subtract(self.count_node(group, node), count)

    def _subtract(self, amounts: Amounts, count: int) -> None:
        """Subtract the amounts of ``count`` nodes from what remains."""
        for name in self.remaining:
            self.remaining[name] -= amounts.get(name, 0) * count


def count_amounts(node: Node, options: AutoscalerOptions) -> Amounts:
    """Return the amounts that a node counts for against the limits."""
    capacity = get_capacity(node)
    amounts = {"cpu": -(-capacity.get("cpu", 0) // 1000), "memory": capacity.get("memory", 0), "nodes": 1}
    gpu_type = node.metadata.labels.get(options.gpu_label)
    if gpu_type is not None and capacity.get(GPU):
        amounts[gpu_type] = capacity[GPU]
    return amounts
