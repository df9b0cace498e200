"""How much of cores, memory and GPUs all nodes may have together.

Upstream: resourcequotas/tracker.go and cache.go, core/scaledown/resource/limits.go (1.36). A node counts with its
capacity: whole cores, rounded up, bytes of memory, and GPUs by the type that its label names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.api.copying import replace
from kschedctl.api.objects import Node
from kschedctl.autoscaling.cluster_autoscaler.nodes import GPU, capacity
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions

VIRTUAL = ("type", "virtual-kubelet")
Amounts = dict[str, int]


class ResourceTracker:
    """``left``: of each resource that has a maximum, how much is left of it.

    All nodes of a group count like the first of it that was seen, be it a real one or the template.
    """

    def __init__(self, options: AutoscalerOptions, nodes: Iterable[Node], of_node: Mapping[str, str]) -> None:
        self.options = options
        self._of_group: dict[str, Amounts] = {}
        maxima = {name: limit.max for name, limit in options.resource_limits.items() if limit.max is not None}
        self.left: Amounts = dict(maxima)
        for node in nodes:
            if node.metadata.labels.get(VIRTUAL[0]) == VIRTUAL[1]:
                continue
            self._consume(self.of(of_node.get(node.metadata.name), node), 1)

    @classmethod
    def least(cls, options: AutoscalerOptions, nodes: Iterable[Node], of_node: Mapping[str, str]) -> ResourceTracker:
        """What is left above the minima of the cluster: how much of each resource may go."""
        limits = cls(replace(options, resource_limits={}), (), {})
        minima = {name: limit.min for name, limit in options.resource_limits.items() if limit.min is not None}
        limits.left = {name: -least for name, least in minima.items()}
        for node in nodes:
            if node.metadata.labels.get(VIRTUAL[0]) != VIRTUAL[1]:
                amounts = limits.of(of_node.get(node.metadata.name), node)
                limits.left = {name: left + amounts.get(name, 0) for name, left in limits.left.items()}
        return limits

    def of(self, group: str | None, node: Node) -> Amounts:
        """What a node counts."""
        if group is None:
            return counted(node, self.options)
        if group not in self._of_group:
            self._of_group[group] = counted(node, self.options)
        return self._of_group[group]

    def exceeded(self, group: str, node: Node, count: int) -> tuple[str, ...]:
        """The resources of which so many nodes more would be too much."""
        amounts = self.of(group, node)
        return tuple(
            sorted(
                name for name, left in self.left.items() if amounts.get(name, 0) * count > left and amounts.get(name, 0)
            )
        )

    def allowed(self, group: str, node: Node, count: int) -> int:
        """How many of so many nodes more the limits allow."""
        amounts = self.of(group, node)
        for name, left in self.left.items():
            if amount := amounts.get(name, 0):
                count = min(count, max(left, 0) // amount)
        return count

    def consume(self, group: str, node: Node, count: int) -> None:
        """Count so many nodes of a group more."""
        self._consume(self.of(group, node), count)

    def _consume(self, amounts: Amounts, count: int) -> None:
        for name in self.left:
            self.left[name] -= amounts.get(name, 0) * count


def counted(node: Node, options: AutoscalerOptions) -> Amounts:
    """What a node counts against limits."""
    has = capacity(node)
    amounts = {"cpu": -(-has.get("cpu", 0) // 1000), "memory": has.get("memory", 0), "nodes": 1}
    gpu_type = node.metadata.labels.get(options.gpu_label)
    if gpu_type is not None and has.get(GPU):
        amounts[gpu_type] = has[GPU]
    return amounts
