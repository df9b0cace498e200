"""The node pools of a cluster as columns, and their changes by a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Counts, Ints
from kschedctl.api.node_pools import find_pool, is_control_plane
from kschedctl.api.objects import Node
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from kschedctl.errors import UsageError
from kschedctl.reports.pool_change import PoolChange
from kschedctl.snapshot.fork import Fork


class Pools(NamedTuple):
    """``names``: of the pools, the empty one for nodes that are in none; ``code`` (N,): which of them each node is in.

    ``workers`` (N,): nodes that are not of the control plane, and not cordoned.
    """

    names: tuple[str, ...]
    code: Ints
    workers: Bools

    @classmethod
    def of(cls, view: Fork, name: Callable[[Node], str] = find_pool) -> Self:
        known: dict[str, int] = {}
        code = [known.setdefault(name(node), len(known)) for node in view.nodes.objects]
        control = np.array([is_control_plane(node) for node in view.nodes.objects], np.bool_)
        return cls(tuple(known), np.array(code, np.int32), ~(control | view.nodes.unschedulable))

    def chosen(self, pool: str) -> Bools:
        """(N,): the nodes of that pool, all where none is named. Raises UsageError."""
        if not pool:
            return np.ones(len(self.code), np.bool_)
        if pool not in self.names:
            known = ", ".join(sorted(filter(None, self.names)))
            raise UsageError(
                f'pool "{pool}" not found', hint=f"there are: {known}" if known else "no node is in a pool"
            )
        members: Bools = self.code == self.names.index(pool)
        return members

    def sums(self, by_node: Amounts) -> Amounts:
        """(pools, R): the amounts of the nodes (N, R) added up."""
        total = np.zeros((len(self.names), by_node.shape[1]), np.int64)
        np.add.at(total, self.code, by_node)
        return total


def amounts_of(view: Fork, amounts: Amounts) -> dict[str, int]:
    """Resource -> amount (R,), of those that there are; see ``told``."""
    return {name: amount for name in told(view) if (amount := int(amounts[view.resources[name]])) > 0}


def told(view: Fork) -> list[str]:
    """The resources worth telling: not the number of pods, nor the disks where nobody asks for any."""
    disks = view.requested[:, view.resources[EPHEMERAL_STORAGE]].any()
    return [name for name in view.resources if name != PODS and (name != EPHEMERAL_STORAGE or disks)]


def free_of(view: Fork) -> Amounts:
    """(N, R): what nobody requested."""
    free: Amounts = np.maximum(view.allocatable - view.requested, 0)
    return free


class PoolState(NamedTuple):
    """How many nodes and pods a pool has, and what pods request of it, in percent; None where it offers none."""

    nodes: int = 0
    pods: int = 0
    cpu: float | None = None
    memory: float | None = None


def pool_changes(before: Fork, after: Fork, left: Bools | None = None) -> tuple[PoolChange, ...]:
    """The workers of each pool, of which those that are ``left`` (N,) are there in the end; None for all.

    ``after``: a fork with the same nodes. Nothing where no pool has other pods or nodes then.
    """
    pools = Pools.of(before)
    return changes_between(pool_states(before, pools), pool_states(after, pools, left))


def changes_between(before: Mapping[str, PoolState], after: Mapping[str, PoolState]) -> tuple[PoolChange, ...]:
    """Each pool that there is before or after; nothing where none has other pods or nodes."""
    none = PoolState()
    pairs = {name: (before.get(name, none), after.get(name, none)) for name in sorted({*before, *after})}
    if all(now[:2] == then[:2] for now, then in pairs.values()):
        return ()
    return tuple(_change(name, now, then) for name, (now, then) in pairs.items())


def _change(pool: str, now: PoolState, then: PoolState) -> PoolChange:
    shares = now.cpu, then.cpu, now.memory, then.memory
    return PoolChange(pool, now.nodes, then.nodes, now.pods, then.pods, *shares)


def pool_states(view: Fork, pools: Pools, left: Bools | None = None) -> dict[str, PoolState]:
    """The workers of each pool as they are, of those that are ``left`` (N,), None for all."""
    there = pools.workers if left is None else pools.workers & left
    nodes, pods = _by_pool(pools, there).tolist(), _by_pool(pools, _pods(view) * there).tolist()
    shares = [_shares(pools, view, there, name) for name in (CPU, MEMORY)]
    rows = zip(nodes, pods, *shares, strict=True)
    return {name: PoolState(*row) for name, row in zip(pools.names, rows, strict=True)}


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
