"""Limits on cores, memory and GPUs of all nodes together.

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
    """What is left of each limited resource.

    All nodes of a group count like its first one, whether real or the template.
    """

    def __init__(self, options: AutoscalerOptions, nodes: Iterable[Node], of_node: Mapping[str, str]) -> None:
        self.options = options
        self._of_group: dict[str, Amounts] = {}
        maxima = {name: limit.max for name, limit in options.resource_limits.items() if limit.max is not None}
        self.left: Amounts = dict(maxima)
        for node in nodes:
            if node.metadata.labels.get(VIRTUAL[0]) == VIRTUAL[1]:
                continue
            self._subtract(self.count_node(of_node.get(node.metadata.name), node), 1)

    @classmethod
    def above_minimum(
        cls, options: AutoscalerOptions, nodes: Iterable[Node], of_node: Mapping[str, str]
    ) -> ResourceTracker:
        """Return a tracker of what is above the minima of the cluster: how much may be removed."""
        limits = cls(replace(options, resource_limits={}), (), {})
        minima = {name: limit.min for name, limit in options.resource_limits.items() if limit.min is not None}
        limits.left = {name: -least for name, least in minima.items()}
        for node in nodes:
            if node.metadata.labels.get(VIRTUAL[0]) != VIRTUAL[1]:
                amounts = limits.count_node(of_node.get(node.metadata.name), node)
                limits.left = {name: left + amounts.get(name, 0) for name, left in limits.left.items()}
        return limits

    def count_node(self, group: str | None, node: Node) -> Amounts:
        """Return what a node counts."""
        if group is None:
            return count_amounts(node, self.options)
        if group not in self._of_group:
            self._of_group[group] = count_amounts(node, self.options)
        return self._of_group[group]

    def find_exceeded(self, group: str, node: Node, count: int) -> tuple[str, ...]:
        """Return the resources whose limits so many more nodes would exceed."""
        amounts = self.count_node(group, node)
        return tuple(
            sorted(
                name for name, left in self.left.items() if amounts.get(name, 0) * count > left and amounts.get(name, 0)
            )
        )

    def limit_count(self, group: str, node: Node, count: int) -> int:
        """Return how many of so many more nodes the limits allow."""
        amounts = self.count_node(group, node)
        for name, left in self.left.items():
            if amount := amounts.get(name, 0):
                count = min(count, max(left, 0) // amount)
        return count

    def consume(self, group: str, node: Node, count: int) -> None:
        """Count so many more nodes of a group."""
        self._subtract(self.count_node(group, node), count)

    def _subtract(self, amounts: Amounts, count: int) -> None:
        for name in self.left:
            self.left[name] -= amounts.get(name, 0) * count


def count_amounts(node: Node, options: AutoscalerOptions) -> Amounts:
    """Return what a node counts against limits."""
    has = get_capacity(node)
    amounts = {"cpu": -(-has.get("cpu", 0) // 1000), "memory": has.get("memory", 0), "nodes": 1}
    gpu_type = node.metadata.labels.get(options.gpu_label)
    if gpu_type is not None and has.get(GPU):
        amounts[gpu_type] = has[GPU]
    return amounts
