"""The node pools of a cluster as columns, and their changes by a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Counts, Ints, Row
from kschedctl.api.node_health import NodeHealth, get_node_health
from kschedctl.api.node_pools import find_node_pool_name, is_control_plane
from kschedctl.api.objects import Node
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from kschedctl.errors import UsageError
from kschedctl.reports.placements import PoolChange
from kschedctl.snapshot.fork import Fork


class Pools(NamedTuple):
    """The pools of a cluster's nodes, with nodes as rows."""

    names: tuple[str, ...]
    """Names of the pools; the empty name stands for nodes without a pool."""
    code: Ints
    """(N,): the index of each node's pool."""
    workers: Bools
    """(N,): nodes outside the control plane that are not cordoned."""

    @classmethod
    def from_view(cls, view: Fork, get_pool: Callable[[Node], str] = find_node_pool_name) -> Self:
        """Build the pools of the view's nodes. ``get_pool`` returns the name of a node's pool, or an empty string.

        Control-plane nodes and cordoned nodes do not count as workers.
        """
        index_by_name: dict[str, int] = {}
        code = [index_by_name.setdefault(get_pool(node), len(index_by_name)) for node in view.nodes.objects]
        is_control = np.array([is_control_plane(node) for node in view.nodes.objects], np.bool_)
        return cls(tuple(index_by_name), np.array(code, np.int32), ~(is_control | view.nodes.unschedulable))

    def get_name(self, row: Row) -> str:
        """Return the name of a node's pool, or "" for a node without a pool."""
        return self.names[int(self.code[row])]

    def select_nodes_in_pool(self, pool: str) -> Bools:
        """Return a mask (N,) of the nodes in the pool, or of all nodes if ``pool`` is empty.

        Raises UsageError if there is no such pool.
        """
        if not pool:
            return np.ones(len(self.code), np.bool_)
        if pool not in self.names:
            pool_names = ", ".join(sorted(filter(None, self.names)))
            hint = f"existing pools: {pool_names}" if pool_names else "no node belongs to a pool"
            raise UsageError(f'pool "{pool}" not found', hint=hint)
        members: Bools = self.code == self.names.index(pool)
        return members

    def sum_by_pool(self, by_node: Amounts) -> Amounts:
        """Return the sums of the nodes' amounts (N, R) by pool, (pools, R)."""
        total = np.zeros((len(self.names), by_node.shape[1]), np.int64)
        np.add.at(total, self.code, by_node)
        return total


def select_reported_amounts(view: Fork, amounts: Amounts) -> dict[str, int]:
    """Return the positive amounts among ``amounts`` (R,) by name of the resource.

    Pods, and ephemeral storage if no pod requests any, are left out.
    """
    amount_by_name = {name: int(amounts[view.resources[name]]) for name in list_reported_resources(view)}
    return {name: amount for name, amount in amount_by_name.items() if amount > 0}


def list_reported_resources(view: Fork) -> list[str]:
    """Return the names of all resources except pods, and except ephemeral storage if no pod requests any."""
    omitted = {PODS}
    if not view.requested[:, view.resources[EPHEMERAL_STORAGE]].any():
        omitted.add(EPHEMERAL_STORAGE)
    return [name for name in view.resources if name not in omitted]


def compute_free_resources(view: Fork) -> Amounts:
    """Return the amounts that are not requested on each node, (N, R)."""
    free: Amounts = np.maximum(view.allocatable - view.requested, 0)
    return free


def find_nodes_with_free_slots(view: Fork) -> Bools:
    """Return a mask (N,) of the nodes that run fewer pods than they may."""
    has_free_slot: Bools = _count_pods_per_node(view) < view.allocatable[:, view.resources[PODS]]
    return has_free_slot


UNREADY_TAINT_SUFFIXES = (
    *("/not-ready", "/unreachable", "/network-unavailable"),
    *("/uninitialized", "/agent-not-ready", "/unregistered", "/startup"),
)
"""Ends of the keys of taints that mark a node on which pods cannot run yet, or cannot run any more."""


def find_unready_nodes(view: Fork) -> Bools:
    """Return a mask (N,) of the nodes that are unready, unreachable or not yet initialized.

    A node counts if its condition Ready or one of its taints says so.
    """
    taint_sets, set_of_node = view.nodes.taint_sets
    is_set_unready = [any(taint.key.endswith(UNREADY_TAINT_SUFFIXES) for taint in taints) for taints in taint_sets]
    is_tainted: Bools = np.array(is_set_unready, np.bool_)[set_of_node]
    is_unhealthy = np.array([get_node_health(node) is not NodeHealth.READY for node in view.nodes.objects], np.bool_)
    is_unready: Bools = is_tainted | is_unhealthy
    return is_unready


class PoolState(NamedTuple):
    """The numbers of nodes and pods in a pool, and the requested share of its resources."""

    nodes: int = 0
    pods: int = 0
    cpu: float | None = None
    """In percent; None if the pool offers none."""
    memory: float | None = None
    """In percent; None if the pool offers none."""
    cordoned: int = 0
    """The number of cordoned nodes, which are not among `nodes`."""


def compare_pools(before: Fork, after: Fork, remaining: Bools | None = None) -> tuple[PoolChange, ...]:
    """Return the changes of all pools between two forks, or () if the nodes and pods of no pool change.

    ``remaining`` (N,) selects the nodes that exist in the end, or all if it is None. Both forks have the same nodes.
    """
    pools = Pools.from_view(before)
    return compare_pool_states(compute_pool_states(before, pools), compute_pool_states(after, pools, remaining))


def compare_pool_states(before: Mapping[str, PoolState], after: Mapping[str, PoolState]) -> tuple[PoolChange, ...]:
    """Return the change of each pool between the states ``before`` and ``after``, sorted by pool.

    A pool that is missing in one of them is empty there. Return () if no pool changes its nodes or pods.
    """
    empty = PoolState()
    changes = [
        _build_pool_change(name, before.get(name, empty), after.get(name, empty)) for name in sorted({*before, *after})
    ]
    if not any(_has_other_counts(change) for change in changes):
        return ()
    return tuple(changes)


def _has_other_counts(change: PoolChange) -> bool:
    """Return whether the number of nodes or pods of a pool changes."""
    return change.nodes_before != change.nodes_after or change.pods_before != change.pods_after


def _build_pool_change(pool: str, before: PoolState, after: PoolState) -> PoolChange:
    """Build the report on the change of one pool."""
    return PoolChange(
        pool,
        before.nodes,
        after.nodes,
        pods_before=before.pods,
        pods_after=after.pods,
        cpu_before=before.cpu,
        cpu_after=after.cpu,
        memory_before=before.memory,
        memory_after=after.memory,
        cordoned=before.cordoned,
    )


def compute_pool_states(view: Fork, pools: Pools, remaining: Bools | None = None) -> dict[str, PoolState]:
    """Return the state of each pool by name. Everything but the number of cordoned nodes counts only worker nodes.

    ``remaining`` (N,) further limits the worker nodes that count, unless it is None.
    """
    is_counted = pools.workers if remaining is None else pools.workers & remaining
    nodes = _sum_by_pool(pools, is_counted).tolist()
    pods = _sum_by_pool(pools, _count_pods_per_node(view) * is_counted).tolist()
    cpu = _compute_requested_percentages(pools, view, is_counted, CPU)
    memory = _compute_requested_percentages(pools, view, is_counted, MEMORY)
    cordoned = _sum_by_pool(pools, view.nodes.unschedulable).tolist()
    states = map(PoolState, nodes, pods, cpu, memory, cordoned)
    return dict(zip(pools.names, states, strict=True))


def _count_pods_per_node(view: Fork) -> Counts:
    """Return the number of pods on each node, (N,)."""
    return np.bincount(view.node[view.mask_placed()], minlength=len(view.nodes))


def _sum_by_pool(pools: Pools, amounts: Counts | Bools) -> Counts:
    """Return the sums of the nodes' amounts (N,) by pool, (pools,)."""
    return pools.sum_by_pool(amounts.astype(np.int64)[:, None])[:, 0]


def _compute_requested_percentages(pools: Pools, view: Fork, nodes: Bools, resource: str) -> list[float | None]:
    """Return, by pool, the requested percentage of what the masked nodes (N,) offer, or None if they offer nothing."""
    column = view.resources[resource]
    offered_by_pool = _sum_by_pool(pools, np.where(nodes, view.allocatable[:, column], 0)).tolist()
    requested_by_pool = _sum_by_pool(pools, np.where(nodes, view.requested[:, column], 0)).tolist()
    return [
        100 * requested / offered if offered else None
        for requested, offered in zip(requested_by_pool, offered_by_pool, strict=True)
    ]
