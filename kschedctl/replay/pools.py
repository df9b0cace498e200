"""The nodes of a cluster by pool, as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Ints
from kschedctl.api.node_pools import find_pool, is_control_plane
from kschedctl.api.objects import Node
from kschedctl.api.resource_names import EPHEMERAL_STORAGE, PODS
from kschedctl.errors import UsageError
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
