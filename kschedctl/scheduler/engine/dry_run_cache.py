"""Cache of preemption dry runs for equal pods, since most nodes do not change between two such pods."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints, Rows
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork, drop_oldest_if_full
from kschedctl.snapshot.pod_info import PodInfo

Positions = npt.NDArray[np.int64]
Priorities = npt.NDArray[np.int64]
UNKNOWN = np.iinfo(np.int64).min
MAX_CACHED_PODS = 4_000_000
"""Maximum number of pods in all cached dry runs. Each pod takes 14 bytes."""


class BudgetStatuses(NamedTuple):
    """The statuses of B PDBs, on which the PDB violations of a dry run depend."""

    names: tuple[str, ...]
    """`namespace/name` of each PDB."""
    allowed: Rows
    """(B,): the disruptions that each PDB allows."""
    recorded_pods: dict[int, list[str]]
    """PDB -> the keys of the pods whose disruption the API server has already recorded, for PDBs with such pods."""


@dataclass(frozen=True)
class DryRunState:
    """The cached result of a preemption dry run on nodes that are judged by their own pods alone.

    The result is valid for a node until pods move there.
    """

    trail: int
    """Length of the view's trail of moves at the time of the dry run."""
    nominated: Delta
    """The nominated pods that were counted."""
    budgets: BudgetStatuses
    """The statuses of the PDBs that were read."""
    tried: Bools
    """(N,): the nodes that the result covers."""
    fits: Bools
    """(N,): nodes on which the pod fits once all evictable pods are gone."""
    insufficient_priority: Priorities
    """(N,): for nodes not tried, the priority up to which evicting all pods does not make the pod fit, or UNKNOWN."""
    violates_nothing: Bools
    """(N,): for nodes not tried, whether evicting all evictable pods is known to violate no PDB."""
    pods: Positions
    """(V,): the evictable pods, sorted by node and then by importance, the most important first."""
    rows: Ints
    """(V,): the row of each pod's node at the time."""
    violating: Bools
    """(V,): whether evicting the pod violates a PDB."""
    must_go: Bools
    """(V,): whether the pod has to be evicted, if the pod fits at all."""

    def restrict_to_unchanged_nodes(self, view: Fork, nominated: Delta) -> DryRunState:
        """Return the result restricted to nodes whose pods and nominations have not changed since the dry run.

        On all other nodes, `insufficient_priority` becomes UNKNOWN, and `violates_nothing` becomes False. Whether PDBs
        still allow the same disruptions is not checked.
        """
        unchanged = view.touched <= self.trail  # no pod has come or gone since
        if nominated is not self.nominated:
            unchanged &= ~nominated.find_differing_nodes(self.nominated, len(unchanged))
        return replace(
            self.restrict_to(unchanged & self.tried),
            trail=len(view.trail),
            nominated=nominated,
            insufficient_priority=np.where(unchanged, self.insufficient_priority, UNKNOWN),
            violates_nothing=self.violates_nothing & unchanged,
        )

    def restrict_to(self, nodes: Bools) -> DryRunState:
        """Return the result for only the nodes of a mask (N,)."""
        chosen_pods = nodes[self.rows]
        return replace(
            self,
            tried=nodes,
            pods=self.pods[chosen_pods],
            rows=self.rows[chosen_pods],
            violating=self.violating[chosen_pods],
            must_go=self.must_go[chosen_pods],
        )

    def merge(self, later: DryRunState) -> DryRunState:
        """Return this result combined with a later result for other nodes. Pods remain sorted by node.

        `insufficient_priority` and `violates_nothing` are those of this result.
        """
        if not later.tried.any():
            return self
        rows = np.concatenate((self.rows, later.rows))
        order = np.argsort(rows, kind="stable")
        return replace(
            self,
            tried=self.tried | later.tried,
            fits=np.where(later.tried, later.fits, self.fits),
            pods=np.concatenate((self.pods, later.pods))[order],
            rows=rows[order],
            violating=np.concatenate((self.violating, later.violating))[order],
            must_go=np.concatenate((self.must_go, later.must_go))[order],
        )

    def with_insufficient_priority(self, priority: int, nodes: Bools) -> DryRunState:
        """Return the result with the record that evicting all pods up to a priority is not enough on these nodes.

        `nodes` is a mask (N,).
        """
        if not nodes.any():
            return self
        return replace(self, insufficient_priority=np.where(nodes, priority, self.insufficient_priority))


def build_empty_dry_run(view: Fork, nominated: Delta, budgets: BudgetStatuses) -> DryRunState:
    """Build a dry-run result that covers no nodes."""
    no_nodes = np.zeros(len(view.nodes), np.bool_)
    no_pods = np.empty(0, np.int64)
    no_marks = np.empty(0, np.bool_)
    return DryRunState(
        trail=len(view.trail),
        nominated=nominated,
        budgets=budgets,
        tried=no_nodes,
        fits=no_nodes,
        insufficient_priority=np.full(len(view.nodes), UNKNOWN),
        violates_nothing=no_nodes,
        pods=no_pods,
        rows=np.empty(0, view.node.dtype),
        violating=no_marks,
        must_go=no_marks,
    )


@dataclass
class VictimCache:
    """A cache of the latest dry run for each class of equal pods."""

    sufficient_priority: int = 0
    """The priority up to which pods had to be evicted in the latest search, where the next search starts."""
    _states: dict[Hashable, DryRunState] = field(default_factory=dict)

    def find(self, pod_class: Hashable) -> DryRunState | None:
        """Return the latest dry run for a class of equal pods, or None if there is none."""
        return self._states.get(pod_class)

    def store(self, pod_class: Hashable, state: DryRunState) -> None:
        """Store a dry run as the latest one for its class of pods.

        If the class is new and the cache is full, the oldest entries are dropped.
        """
        if pod_class not in self._states:
            # The limit is the total size of all states, if all were as large as this one.
            max_states = max(MAX_CACHED_PODS // (len(state.pods) + len(state.tried)), 1)
            drop_oldest_if_full(self._states, max_states)
        self._states[pod_class] = state


def get_dry_run_key(info: PodInfo, view: Fork) -> Hashable:
    """Return a cache key that is equal for pods with the same priority and requests.

    Pods that are scheduled again after they had a node have keys of their own. Return None if the PodInfo has no
    number, since its result cannot be cached.
    """
    if info.number is None:
        return None
    # A pod that had a node has the number of its stored PodInfo plus the number of all PodInfos.
    had_node, number = divmod(info.number, len(view.pods.infos))
    return info.priority, int(view.pods.distinct.demand[number]), bool(had_node)
