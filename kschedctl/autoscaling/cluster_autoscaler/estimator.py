"""How many nodes of a group the pods that wait would need, packed first fit.

Upstream: estimator/binpacking_estimator.go, decreasing_pod_orderer.go and threshold_based_estimation_limiter.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.objects import Node, Pod
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot, FilterRefusal
from kschedctl.autoscaling.cluster_autoscaler.equivalence import EquivalenceGroup
from kschedctl.autoscaling.cluster_autoscaler.templates import copy_of
from kschedctl.snapshot.node_order import HOSTNAME

SPREAD_REFUSES = "node(s) didn't match pod topology spread constraints"
ROWS_AT_ONCE = 16


class Estimate(NamedTuple):
    """How many nodes got a pod, and which pods have one."""

    nodes: int
    pods: list[Pod]


class Estimator:
    """Packs pods on a fork of the cluster, to which nodes like the template of ``row`` are added.

    ``most``: so many at most, None for no limit.
    """

    def __init__(
        self, snapshot: ClusterSnapshot, row: Row, template: Node, most: int | None, position: Callable[[Pod], Position]
    ) -> None:
        self.snapshot, self.row, self.template, self.position = snapshot.fork(), row, template, position
        self.left = most
        self.added: list[Row] = []
        self.used: set[Row] = set()
        self.placed: list[Pod] = []
        self._spare: list[Row] = []
        self._pods = self.snapshot.on(row)
        self._made = 0

    def estimate(self, groups: Sequence[EquivalenceGroup]) -> Estimate:
        more = True
        for group in sorted(groups, key=self._size, reverse=True):
            waiting = self._on_added(group.pods)
            more = more and self._on_new(waiting)
        return Estimate(len(self.used), self.placed)

    def _size(self, group: EquivalenceGroup) -> float:
        """How much of a node a pod of the group takes."""
        view = self.snapshot.universe
        requests = view.pods.infos[view.pods.info[self.position(group.first)]].requests
        offered = node_facts.offered(self.template)
        shares = [requests.get(name, 0) / offered[name] for name in ("cpu", "memory") if offered.get(name, 0) > 0]
        return float(sum(shares))

    def _on_added(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Put pods on nodes that were added before, up to the first that finds none; those that are left."""
        for number, pod in enumerate(pods):
            row = self.snapshot.place_anywhere(self.position(pod), self._only(self.added))
            if row is None:
                return pods[number:]
            self._is_placed(pod, row)
        return ()

    def _on_new(self, pods: Sequence[Pod]) -> bool:
        """Add nodes for pods until one does not fit a fresh one; whether more nodes may be added for others."""
        for pod in pods:
            if self.added and self._on_last(pod):
                continue
            if self.added and self.added[-1] not in self.used:
                return True
            if self.left == 0:
                return False
            self._add()
            if self.snapshot.place(self.position(pod), self.added[-1]) is not None:
                return True
            self._is_placed(pod, self.added[-1])
        return True

    def _on_last(self, pod: Pod) -> bool:
        """Put a pod on the node that was added last, or on any other where its spreading over nodes forbids that."""
        last = self.added[-1]
        refusal = self.snapshot.place(self.position(pod), last)
        if refusal is None:
            self._is_placed(pod, last)
            return True
        if not _is_spread_over_nodes(pod, refusal):
            return False
        others = np.ones(len(self.snapshot.universe.nodes), np.bool_)
        others[last] = False
        row = self.snapshot.place_anywhere(self.position(pod), others)
        if row is not None:
            self._is_placed(pod, row)
        return row is not None

    def _is_placed(self, pod: Pod, row: Row) -> None:
        self.used.add(row)
        self.placed.append(pod)

    def _only(self, rows: Sequence[Row]) -> Bools:
        chosen = np.zeros(len(self.snapshot.universe.nodes), np.bool_)
        chosen[rows] = True
        return chosen

    def _add(self) -> None:
        """A node more, with the pods that come with it."""
        if not self._spare:
            count = max(ROWS_AT_ONCE, len(self.added))
            names = [f"e-{self._made + number}" for number in range(count)]
            self._spare = self.snapshot.more_like(self.row, [copy_of(self.template, name) for name in names])[::-1]
            self._made += count
        row = self._spare.pop()
        for copy in self.snapshot.clone(self._pods):
            self.snapshot.put(copy, row)
        self.snapshot.add(row)
        self.added.append(row)
        if self.left is not None:
            self.left -= 1


def _is_spread_over_nodes(pod: Pod, refusal: FilterRefusal) -> bool:
    over_nodes = any(constraint.topology_key == HOSTNAME for constraint in pod.spec.topology_spread_constraints)
    return over_nodes and SPREAD_REFUSES in refusal.reasons
