"""Sampling: in a big cluster the scheduler stops looking once it has found enough nodes, and goes on from there.

Upstream: numFeasibleNodesToFind, findNodesThatFitPod and findNodesThatPassFilters in pkg/scheduler/schedule_one.go
(v1.36), as it is with a parallelism of 1; with more, up to 15 nodes more are looked at, which ones is not defined.
"""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Rows

LEAST_NODES, LEAST_PERCENTAGE = 100, 5


def feasible_nodes_to_find(percentage: int, nodes: int) -> int:
    """How many nodes that fit are enough, of so many; percentage 0 adapts to the size of the cluster.

    >>> [feasible_nodes_to_find(0, nodes) for nodes in (99, 1000, 6000)], feasible_nodes_to_find(40, 6000)
    ([99, 420, 300], 2400)
    """
    if nodes < LEAST_NODES:
        return nodes
    percentage = percentage or max(50 - nodes // 125, LEAST_PERCENTAGE)
    return max(nodes * percentage // 100, LEAST_NODES)


class Sampling:
    """Where the scheduler goes on; ``percentage`` is percentageOfNodesToScore of the configuration."""

    def __init__(self, percentage: int = 0, start: int = 0) -> None:
        self.percentage, self.start = percentage, start

    def sample(self, refused: Bools, looked_at: Rows, own_percentage: int | None = None, scoring: bool = True) -> Rows:
        """The rows among those ``looked_at`` that are found to fit, in order; the next sample starts behind them.

        ``refused`` (N,); ``looked_at`` are all rows unless PreFilter left some only, whose order upstream leaves open.
        ``own_percentage`` is the profile's; without ``scoring`` one node is enough.
        """
        total = len(looked_at)
        if not total:
            return looked_at
        percentage = self.percentage if own_percentage is None else own_percentage
        enough = feasible_nodes_to_find(percentage, total) if scoring else 1
        order = np.roll(looked_at, -(self.start % total))
        fitting = np.flatnonzero(~refused[order])
        seen = int(fitting[enough]) - 1 if len(fitting) > enough else total - 1
        self.start = (self.start + seen + 1) % len(refused)
        return np.sort(order[fitting[:enough]])
