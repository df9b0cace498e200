"""Estimates of how many nodes of a group the waiting pods need, by first-fit packing of equivalent pods.

Upstream: estimator/binpacking_estimator.go, decreasing_pod_orderer.go and threshold_based_estimation_limiter.go,
core/scaleup/equivalence/groups.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.objects import Node, Pod
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot, FilterRejection
from kschedctl.autoscaling.cluster_autoscaler.pods import compute_similarity_key, get_controller, is_daemon_set_pod
from kschedctl.autoscaling.cluster_autoscaler.templates import copy_node_with_suffix
from kschedctl.snapshot.nodes import HOSTNAME

SPREAD_REJECTION = "node(s) didn't match pod topology spread constraints"
ROWS_AT_ONCE = 16
MAX_GROUPS_PER_CONTROLLER = 10


class Estimate(NamedTuple):
    """The number of new nodes that get a pod, and the pods for which a node was found."""

    nodes: int
    pods: list[Pod]


class Estimator:
    """An estimator that packs pods on a fork of the cluster, adding up to ``max_nodes`` copies of a template.

    ``row`` is the template's row in the snapshot's universe. Without ``max_nodes``, the number of nodes is unlimited.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        row: Row,
        template: Node,
        max_nodes: int | None,
        get_position: Callable[[Pod], Position],
    ) -> None:
        self.snapshot = snapshot.fork()
        self.row = row
        self.template = template
        self.get_position = get_position
        self.remaining_nodes = max_nodes
        self.added: list[Row] = []
        self.used: set[Row] = set()
        self.placed: list[Pod] = []
        self._spare_rows: list[Row] = []
        self._template_pods = self.snapshot.get_pods_on(row)
        self._created_count = 0

    def estimate_node_count(self, groups: Sequence[EquivalenceGroup]) -> Estimate:
        """Pack the groups of pods, largest pods first. Return the number of nodes needed and the pods that fit.

        Once the maximum number of nodes is reached, later groups only use the nodes that were added before.
        """
        may_add_nodes = True
        for group in sorted(groups, key=self._compute_pod_size, reverse=True):
            waiting = self._place_pods_on_added_nodes(group.pods)
            may_add_nodes = may_add_nodes and self._place_pods_on_new_nodes(waiting)
        return Estimate(len(self.used), self.placed)

    def _compute_pod_size(self, group: EquivalenceGroup) -> float:
        """Return the size of a pod of the group: its requested shares of a new node's CPU and memory, added up."""
        view = self.snapshot.universe
        requests = view.pods.get_info(self.get_position(group.first)).requests
        offered = node_facts.get_allocatable_amounts(self.template)
        shares = [requests.get(name, 0) / offered[name] for name in ("cpu", "memory") if offered.get(name, 0) > 0]
        return float(sum(shares))

    def _place_pods_on_added_nodes(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Place pods on nodes that were added before, until a pod does not fit.

        Return this pod and all later pods, or () if all pods fit.
        """
        for number, pod in enumerate(pods):
            row = self.snapshot.place_pod_on_next_fitting_node(self.get_position(pod), self._build_row_mask(self.added))
            if row is None:
                return pods[number:]
            self._record_placement(pod, row)
        return ()

    def _place_pods_on_new_nodes(self, pods: Sequence[Pod]) -> bool:
        """Add nodes and place the pods on them, until a pod does not fit even on an empty node.

        A node is added when a pod does not fit on the last added node. Return False if the maximum number of nodes is
        reached, so that later groups may not add nodes either. Otherwise, return True.
        """
        for pod in pods:
            if self.added and self._place_pod_preferring_last_node(pod):
                continue
            if self.added and self.added[-1] not in self.used:  # the last node is still empty, so another is no help
                return True
            if self.remaining_nodes == 0:
                return False
            self._add_template_copy()
            new_node = self.added[-1]
            rejection = self.snapshot.place_pod_if_accepted(self.get_position(pod), new_node)
            if rejection is not None:
                return True
            self._record_placement(pod, new_node)
        return True

    def _place_pod_preferring_last_node(self, pod: Pod) -> bool:
        """Try to place a pod on the last added node, and return whether it was placed.

        If a spread constraint over nodes rejects the pod there, any other node that accepts it is used.
        """
        last = self.added[-1]
        rejection = self.snapshot.place_pod_if_accepted(self.get_position(pod), last)
        if rejection is None:
            self._record_placement(pod, last)
            return True
        if not _is_rejected_by_spread_over_nodes(pod, rejection):
            return False
        other_nodes = np.ones(len(self.snapshot.universe.nodes), np.bool_)
        other_nodes[last] = False
        row = self.snapshot.place_pod_on_next_fitting_node(self.get_position(pod), other_nodes)
        if row is not None:
            self._record_placement(pod, row)
        return row is not None

    def _record_placement(self, pod: Pod, row: Row) -> None:
        """Record the pod as placed and the node as used."""
        self.used.add(row)
        self.placed.append(pod)

    def _build_row_mask(self, rows: Sequence[Row]) -> Bools:
        """Return an (M,) mask over the universe that selects these rows."""
        mask = np.zeros(len(self.snapshot.universe.nodes), np.bool_)
        mask[rows] = True
        return mask

    def _add_template_copy(self) -> None:
        """Add a copy of the template node, with copies of its pods.

        The number of nodes that may still be added decreases, unless it is unlimited.
        """
        if not self._spare_rows:  # rows are created in batches, which is faster
            count = max(ROWS_AT_ONCE, len(self.added))
            suffixes = [f"e-{self._created_count + number}" for number in range(count)]
            nodes = [copy_node_with_suffix(self.template, suffix) for suffix in suffixes]
            rows = self.snapshot.create_rows_like(self.row, nodes)
            self._spare_rows = rows[::-1]  # the next one last, to be popped
            self._created_count += count
        row = self._spare_rows.pop()
        for copy in self.snapshot.clone_pods(self._template_pods):
            self.snapshot.put_pod(copy, row)
        self.snapshot.add_node(row)
        self.added.append(row)
        if self.remaining_nodes is not None:
            self.remaining_nodes -= 1


def _is_rejected_by_spread_over_nodes(pod: Pod, rejection: FilterRejection) -> bool:
    """Return whether the pod has a spread constraint over nodes and a spread constraint caused the rejection."""
    over_nodes = any(constraint.topology_key == HOSTNAME for constraint in pod.spec.topology_spread_constraints)
    return over_nodes and SPREAD_REJECTION in rejection.reasons


@dataclass(eq=False)
class EquivalenceGroup:
    """Similar pods of one controller."""

    pods: list[Pod]
    rejections: dict[str, FilterRejection] = field(default_factory=dict)
    """Node group -> why its new node would reject such a pod."""
    accepting_groups: list[str] = field(default_factory=list)
    """Node groups whose new node would accept such a pod."""

    @property
    def first(self) -> Pod:
        """The first pod, which is tried in place of all pods of the group."""
        return self.pods[0]


def group_equivalent_pods(pods: Iterable[Pod]) -> list[EquivalenceGroup]:
    """Group similar pods of each controller, in the order of their first pods.

    Once a controller has MAX_GROUPS_PER_CONTROLLER groups, each further pod that belongs to none of them forms a group
    of its own. Pods without a controller and pods of DaemonSets also form groups of their own.
    """
    groups: list[EquivalenceGroup] = []
    by_controller: dict[str, dict[bytes, EquivalenceGroup]] = {}
    for pod in pods:
        controller = get_controller(pod)
        if controller is None or is_daemon_set_pod(pod):
            groups.append(EquivalenceGroup([pod]))
            continue
        controller_groups = by_controller.setdefault(controller.uid, {})
        similarity = compute_similarity_key(pod)
        if similarity in controller_groups:
            controller_groups[similarity].pods.append(pod)
            continue
        groups.append(EquivalenceGroup([pod]))
        if len(controller_groups) < MAX_GROUPS_PER_CONTROLLER:
            controller_groups[similarity] = groups[-1]
    return groups
