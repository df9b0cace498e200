"""Evictions that plugins request, within the limits of the policy.

Upstream: PodEvictor in pkg/descheduler/evictions/evictions.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from kschedctl.api.arrays import Position
from kschedctl.descheduling.policy import PolicyEvictionLimits
from kschedctl.descheduling.seen_pods import SeenPods

NODE_LIMIT, NAMESPACE_LIMIT, TOTAL_LIMIT = (
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
    "maxNoOfPodsToEvictTotal",
)

Begin = Callable[[str, int], Callable[[int], None]]


class EvictionResult(Enum):
    """The result of an eviction request."""

    EVICTED = auto()
    NODE_LIMIT = auto()
    """The node's limit is reached, so that no further pod of the node can be evicted."""
    TOTAL_LIMIT = auto()
    """The total limit is reached, so that no further pod at all can be evicted."""
    REFUSED = auto()
    """The namespace's limit is reached, or the API server denied the eviction."""


class DeniedEviction(NamedTuple):
    """An eviction request that was denied."""

    plugin: str
    position: Position
    reason: str
    """A limit of the policy, or the API server's message."""


@dataclass
class EvictionCounter:
    """A counter of the evictions in one round, which enforces the policy's limits."""

    seen: SeenPods
    limits: PolicyEvictionLimits
    carry_out: Callable[[Position, str], str]
    """A function that evicts a pod for a plugin and returns "", or why the pod cannot be evicted."""
    begin: Begin = lambda title, total: lambda done: None
    """Starts to show progress: gets a title and the number of pods, and returns a function for the number done."""
    denied: list[DeniedEviction] = field(default_factory=list)
    _nodes: Counter[int] = field(default_factory=Counter)
    _namespaces: Counter[str] = field(default_factory=Counter)

    def build_counter_for_other_pods(
        self, seen: SeenPods, carry_out: Callable[[Position, str], str]
    ) -> EvictionCounter:
        """Return a counter for the pods in ``seen``, which shares this counter's limits and numbers of evictions.

        ``carry_out`` evicts the pods of the new counter.
        """
        return EvictionCounter(
            seen, self.limits, carry_out, self.begin, _nodes=self._nodes, _namespaces=self._namespaces
        )

    def evict_pod(self, position: Position, plugin: str) -> EvictionResult:
        """Evict a pod for a plugin if the limits and the API server allow it, and return the result.

        Evictions are counted, and denials are recorded in ``denied``. As in upstream, a pod that was evicted before is
        counted again, but not evicted again.
        """
        row = int(self.seen.view.node[position])
        info_number = self.seen.info[position]
        namespace = self.seen.infos[info_number].namespace
        per_node, per_namespace, total = self.limits
        if total is not None and self._namespaces.total() >= total:
            return self._record_denial(plugin, position, TOTAL_LIMIT, EvictionResult.TOTAL_LIMIT)
        if per_node is not None and self._nodes[row] >= per_node:
            return self._record_denial(plugin, position, NODE_LIMIT, EvictionResult.NODE_LIMIT)
        if per_namespace is not None and self._namespaces[namespace] >= per_namespace:
            return self._record_denial(plugin, position, NAMESPACE_LIMIT, EvictionResult.REFUSED)
        if not self.seen.evicted[position]:
            message = self.carry_out(position, plugin)
            if message:
                return self._record_denial(plugin, position, message, EvictionResult.REFUSED)
        self._nodes[row] += 1
        self._namespaces[namespace] += 1
        self.seen.evicted[position] = True
        return EvictionResult.EVICTED

    def _record_denial(self, plugin: str, position: Position, reason: str, result: EvictionResult) -> EvictionResult:
        """Record a denied eviction with its reason, and return ``result``."""
        self.denied.append(DeniedEviction(plugin, position, reason))
        return result
