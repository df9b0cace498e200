"""Limits of NodePools, which the search ignores and the report therefore warns about.

Upstream: https://karpenter.sh/docs/concepts/nodepools/#speclimits. All nodes of a pool count, by their capacity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from kschedctl.api.karpenter import NodePool
from kschedctl.api.quantity import parse_milli_value
from kschedctl.autoscaling.karpenter.labels import NODE_POOL
from kschedctl.commands.size.program import Counts
from kschedctl.commands.size.shapes import NodeShape

NODES = "nodes"


def find_exceeded_limits(pools: Iterable[NodePool], shapes: Mapping[str, NodeShape], counts: Counts) -> Iterator[str]:
    """Yield a warning for each resource of a NodePool whose limit the set exceeds."""
    used: dict[str, Counter[str]] = {}
    for name, number in counts.items():
        model = next(iter(shapes[name].models.values()))
        amounts = used.setdefault(model.metadata.labels.get(NODE_POOL, ""), Counter())
        amounts[NODES] += 1000 * number
        for resource, amount in model.status.capacity.items():
            amounts[resource] += number * parse_milli_value(amount)
    for pool in pools:
        for resource, limit in (pool.spec.limits or {}).items():
            if used.get(pool.metadata.name, Counter())[resource] > parse_milli_value(limit):
                words = f'NodePool "{pool.metadata.name}" may have {limit} {resource}, and these nodes have more'
                yield f"{words}: sets within its limits were not looked for"
