"""The pools of a cluster before and after a plan."""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.reports.pool_change import PoolChange
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.packing.pools import Pools


def pool_changes(before: Fork, after: Fork, left: Bools | None = None) -> tuple[PoolChange, ...]:
    """The workers of each pool, of which those that are ``left`` (N,) are there in the end; None for all.

    ``after``: a fork with the same nodes. Nothing where no pool has other pods or nodes then.
    """
    pools = Pools.of(before)
    there = pools.workers
    left = there if left is None else left & there
    nodes = _by_pool(pools, there), _by_pool(pools, left)
    pods = _by_pool(pools, _pods(before) * there), _by_pool(pools, _pods(after) * left)
    views = (before, there), (after, left)
    shares = [_shares(pools, view, present, name) for name in (CPU, MEMORY) for view, present in views]
    if all(same.tolist() == then.tolist() for same, then in (nodes, pods)):
        return ()
    columns = (*(counts.tolist() for counts in (*nodes, *pods)), *shares)
    rows = zip(pools.names, *columns, strict=True)
    return tuple(sorted((PoolChange(*row) for row in rows), key=lambda change: change.pool))


def _pods(view: Fork) -> Counts:
    """(N,): how many pods are on each node."""
    return np.bincount(view.node[view.node >= 0], minlength=len(view.nodes))


def _by_pool(pools: Pools, amounts: Counts | Bools) -> Counts:
    """(pools,): the amounts of the nodes (N,) added up."""
    return pools.sums(amounts.astype(np.int64)[:, None])[:, 0]


def _shares(pools: Pools, view: Fork, nodes: Bools, resource: str) -> list[float | None]:
    """(pools,): what pods request of the nodes (N,), in percent of what these offer."""
    column = view.resources[resource]
    offered = _by_pool(pools, np.where(nodes, view.allocatable[:, column], 0)).tolist()
    requested = _by_pool(pools, np.where(nodes, view.requested[:, column], 0)).tolist()
    return [100 * asked / there if there else None for asked, there in zip(requested, offered, strict=True)]
