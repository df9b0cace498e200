"""The number of nodes of a group that waiting pods need, by first-fit packing.

Upstream: estimator/binpacking_estimator.go, decreasing_pod_orderer.go and threshold_based_estimation_limiter.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.objects import Node, Pod
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot, FilterRejection
from kschedctl.autoscaling.cluster_autoscaler.equivalence import EquivalenceGroup
from kschedctl.autoscaling.cluster_autoscaler.templates import copy_with_suffix
from kschedctl.snapshot.node_order import HOSTNAME

SPREAD_REJECTION = "node(s) didn't match pod topology spread constraints"
ROWS_AT_ONCE = 16


class Estimate(NamedTuple):
    """The number of nodes that got a pod, and the pods that have a node."""

    nodes: int
    pods: list[Pod]


class Estimator:
    """Packs pods on a fork of the cluster, to which nodes like the template at ``row`` are added, at most ``most``."""

    def __init__(
        self, snapshot: ClusterSnapshot, row: Row, template: Node, most: int | None, position: Callable[[Pod], Position]
    ) -> None:
        self.snapshot, self.row, self.template, self.position = snapshot.fork(), row, template, position
        self.left = most
        self.added: list[Row] = []
        self.used: set[Row] = set()
        self.placed: list[Pod] = []
        self._spare: list[Row] = []
        self._pods = self.snapshot.pods_on(row)
        self._made = 0

    def estimate(self, groups: Sequence[EquivalenceGroup]) -> Estimate:
        """Pack the groups, largest pods first."""
        more = True
        for group in sorted(groups, key=self._relative_size, reverse=True):
            waiting = self._place_on_added(group.pods)
            more = more and self._place_on_new(waiting)
        return Estimate(len(self.used), self.placed)

    def _relative_size(self, group: EquivalenceGroup) -> float:
        """Return how much of a node a pod of the group takes."""
        view = self.snapshot.universe
        requests = view.pods.infos[view.pods.info[self.position(group.first)]].requests
        offered = node_facts.get_allocatable(self.template)
        shares = [requests.get(name, 0) / offered[name] for name in ("cpu", "memory") if offered.get(name, 0) > 0]
        return float(sum(shares))

    def _place_on_added(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Put pods on nodes added before until one finds none. Return the remaining pods."""
        for number, pod in enumerate(pods):
            row = self.snapshot.place_anywhere(self.position(pod), self._select_rows(self.added))
            if row is None:
                return pods[number:]
            self._record_placement(pod, row)
        return ()

    def _place_on_new(self, pods: Sequence[Pod]) -> bool:
        """Add nodes for pods until one does not fit an empty node. Return whether more nodes may be added for
        others.
        """
        for pod in pods:
            if self.added and self._place_on_last(pod):
                continue
            if self.added and self.added[-1] not in self.used:
                return True
            if self.left == 0:
                return False
            self._add_node()
            if self.snapshot.place(self.position(pod), self.added[-1]) is not None:
                return True
            self._record_placement(pod, self.added[-1])
        return True

    def _place_on_last(self, pod: Pod) -> bool:
        """Put a pod on the last added node, or on any other if spreading over nodes forbids that."""
        last = self.added[-1]
        refusal = self.snapshot.place(self.position(pod), last)
        if refusal is None:
            self._record_placement(pod, last)
            return True
        if not _is_spread_over_nodes(pod, refusal):
            return False
        others = np.ones(len(self.snapshot.universe.nodes), np.bool_)
        others[last] = False
        row = self.snapshot.place_anywhere(self.position(pod), others)
        if row is not None:
            self._record_placement(pod, row)
        return row is not None

    def _record_placement(self, pod: Pod, row: Row) -> None:
        self.used.add(row)
        self.placed.append(pod)

    def _select_rows(self, rows: Sequence[Row]) -> Bools:
        chosen = np.zeros(len(self.snapshot.universe.nodes), np.bool_)
        chosen[rows] = True
        return chosen

    def _add_node(self) -> None:
        """Add a node with the pods that come with it."""
        if not self._spare:
            count = max(ROWS_AT_ONCE, len(self.added))
            names = [f"e-{self._made + number}" for number in range(count)]
            self._spare = self.snapshot.create_like(
                self.row, [copy_with_suffix(self.template, name) for name in names]
            )[::-1]
            self._made += count
        row = self._spare.pop()
        for copy in self.snapshot.clone_pods(self._pods):
            self.snapshot.put_pod(copy, row)
        self.snapshot.add_node(row)
        self.added.append(row)
        if self.left is not None:
            self.left -= 1


def _is_spread_over_nodes(pod: Pod, refusal: FilterRejection) -> bool:
    over_nodes = any(constraint.topology_key == HOSTNAME for constraint in pod.spec.topology_spread_constraints)
    return over_nodes and SPREAD_REJECTION in refusal.reasons
