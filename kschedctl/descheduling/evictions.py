"""What becomes of an eviction that a plugin asks for: the limits of the policy first, then whoever carries it out.

Upstream: PodEvictor in pkg/descheduler/evictions/evictions.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.descheduling.policy import EvictionLimitsOfPolicy
from kschedctl.descheduling.seen_pods import SeenPods

NODE_LIMIT, NAMESPACE_LIMIT, TOTAL_LIMIT = (
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
    "maxNoOfPodsToEvictTotal",
)


class EvictionResult(Enum):
    EVICTED = auto()
    NODE_LIMIT = auto()
    TOTAL_LIMIT = auto()
    REFUSED = auto()


class RefusedEviction(NamedTuple):
    """An eviction that a plugin asked for in vain; ``why``: a limit of the policy, or what the API server says."""

    plugin: str
    position: Position
    why: str


@dataclass
class EvictionCounter:
    """Evictions of one round. ``carry_out``: evicts a pod for a plugin, or says why it cannot be."""

    seen: SeenPods
    limits: EvictionLimitsOfPolicy
    carry_out: Callable[[Position, str], str]
    refused: list[RefusedEviction] = field(default_factory=list)
    _nodes: Counter[int] = field(default_factory=Counter)
    _namespaces: Counter[str] = field(default_factory=Counter)

    def of_others(self, seen: SeenPods, carry_out: Callable[[Position, str], str]) -> EvictionCounter:
        """For other pods of the same round, which count for the same limits."""
        return EvictionCounter(seen, self.limits, carry_out, _nodes=self._nodes, _namespaces=self._namespaces)

    def evict(self, position: Position, plugin: str) -> EvictionResult:
        """One pod, if the limits and the API server let it go; one that has gone counts again, as upstream."""
        row = int(self.seen.view.node[position])
        namespace = self.seen.infos[self.seen.info[position]].namespace
        per_node, per_namespace, total = self.limits
        if total is not None and self._namespaces.total() >= total:
            return self._refuse(plugin, position, TOTAL_LIMIT, EvictionResult.TOTAL_LIMIT)
        if per_node is not None and self._nodes[row] >= per_node:
            return self._refuse(plugin, position, NODE_LIMIT, EvictionResult.NODE_LIMIT)
        if per_namespace is not None and self._namespaces[namespace] >= per_namespace:
            return self._refuse(plugin, position, NAMESPACE_LIMIT, EvictionResult.REFUSED)
        if not self.seen.evicted[position] and (why := self.carry_out(position, plugin)):
            return self._refuse(plugin, position, why, EvictionResult.REFUSED)
        self._nodes[row] += 1
        self._namespaces[namespace] += 1
        self.seen.evicted[position] = True
        return EvictionResult.EVICTED

    def _refuse(self, plugin: str, position: Position, why: str, result: EvictionResult) -> EvictionResult:
        self.refused.append(RefusedEviction(plugin, position, why))
        return result
