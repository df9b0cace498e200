"""The utilization of nodes, trial removals one after another or each separately, and the pods that prevent them.

Upstream: simulator/cluster.go and simulator/utilization/info.go (1.36). While its pods are being placed, the node still
exists as an empty, tainted topology domain. It is removed once all of them have room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.objects import Node, Pod, Taint
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot, Hints, SearchCursor, place_pods
from kschedctl.autoscaling.cluster_autoscaler.drainability import (
    Drainability,
    DrainPlan,
    RemainingBudgets,
    build_drain_plan,
    is_long_terminating,
)
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.nodes import TO_BE_DELETED
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, AutoscalerOptions
from kschedctl.autoscaling.cluster_autoscaler.pods import is_daemon_set_pod, is_mirror_pod, list_pod_keys
from kschedctl.autoscaling.growth import Begin, ignore_progress, iter_with_progress
from kschedctl.reports.cluster_autoscaler import AloneRemoval, BlockingPod, NodeKeepers, Utilization

NO_PLACE, BLOCKED = "NoPlaceToMovePods", "BlockedByPod"

_Requested = Mapping[str, int]
"""_Requested amounts by resource in millicores, bytes or units."""


@dataclass(frozen=True)
class Removal:
    """The result of a trial removal."""

    moves: DrainPlan
    reason: str = ""
    """The reason why the node has to stay, or "" if it can be removed."""
    placed: dict[str, Row] = field(default_factory=dict)
    """The row to which each pod moves."""


@dataclass(eq=False)
class RemovalSimulator:
    """A simulator that removes nodes one after the other."""

    snapshot: ClusterSnapshot
    rules: Drainability
    get_pod: Callable[[Position], Pod]
    """Returns the pod at a position."""
    hints: Hints = field(default_factory=dict)

    def plan_drain(self, row: Row) -> DrainPlan:
        """Plan the removal of a node: which of its pods move, and which are awaited.

        If a pod blocks the removal, the plan names it.
        """
        return build_drain_plan(map(self.get_pod, self.snapshot.get_pods_on(row)), self.rules)

    def try_node_removal(self, row: Row, acceptable: Bools, *, keep: bool) -> Removal:
        """Try to remove a node by moving its pods to other acceptable nodes, and return the result.

        ``acceptable`` is an (M,) mask of the universe's nodes. With ``keep``, a successful removal is kept in
        ``snapshot``. Otherwise, it is undone.
        """
        positions = self.snapshot.get_pods_on(row)
        position_by_key = {self.get_pod(position).key: position for position in positions}
        plan = build_drain_plan(map(self.get_pod, positions), self.rules)
        if plan.blocking:
            return Removal(plan, BLOCKED)
        moving = [(pod, position_by_key[pod.key]) for pod in plan.pods]
        placed = self._move_pods_off_node(row, positions, moving, acceptable, keep=keep)
        return Removal(plan, NO_PLACE) if placed is None else Removal(plan, placed=placed)

    def _move_pods_off_node(
        self,
        row: Row,
        all_positions: Sequence[Position],
        moving: list[tuple[Pod, Position]],
        acceptable: Bools,
        *,
        keep: bool,
    ) -> dict[str, Row] | None:
        """Empty a node by moving the pods in ``moving`` to other nodes. Return each moved pod's new row, by key.

        ``all_positions`` includes the node's other pods, which simply disappear. Return None if a pod does not fit. In
        this case, or without ``keep``, the node gets all its pods back. Otherwise, the node is removed.
        """
        # The taint only matters to spread constraints that honor taints, so the fork is avoided otherwise.
        snapshot = self._with_tainted_node(row) if self._has_taint_aware_spreading() else self.snapshot
        for position in all_positions:
            snapshot.remove_pod(position)
        targets = acceptable.copy()
        targets[row] = False

        placed = place_pods(snapshot, moving, targets, self.hints, all_or_none=True)
        all_placed = len(placed) == len(moving)
        if all_placed and keep:
            snapshot.remove_node(row)
            self.snapshot = snapshot
            return placed

        # undo the move
        for pod, position in moving:
            if pod.key in placed:
                snapshot.remove_pod(position)
        snapshot.put_pods_back(row, all_positions)
        return placed if all_placed else None

    def _has_taint_aware_spreading(self) -> bool:
        """Return whether any pod has a spread constraint with nodeTaintsPolicy Honor.

        Such a constraint counts only nodes whose taints the pod tolerates.
        """
        infos = self.snapshot.universe.pods.infos
        return any(
            constraint.node_taints_policy == "Honor"
            for info in infos
            for constraint in info.spec.topology_spread_constraints
        )

    def _with_tainted_node(self, row: Row) -> ClusterSnapshot:
        """Return a fork of the snapshot in which the node has the ToBeDeleted taint."""
        node = self.snapshot.universe.nodes.objects[row]
        taint = Taint(TO_BE_DELETED, str(self.rules.now // 10**6), "NoSchedule")
        return self.snapshot.with_replaced_node(
            row, replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))
        )


def build_row_mask(loop: AutoscalerLoop, nodes: Iterable[Node]) -> Bools:
    """Return an (M,) mask of the universe's nodes that is set for these nodes."""
    mask = np.zeros(len(loop.snapshot.universe.nodes), np.bool_)
    mask[[loop.get_node_row(node.metadata.name) for node in nodes]] = True
    return mask


def build_blocking_pod_report(removal: Removal) -> BlockingPod | None:
    """Build the report on the pod that blocks the removal, with the reason. Return None if no pod blocks it."""
    if removal.moves.blocking is None:
        return None
    pod, reason = removal.moves.blocking
    return BlockingPod(pod.key, reason)


@dataclass(eq=False)
class SingleRemovals:
    """Trial removals of single nodes from the unchanged cluster."""

    loop: AutoscalerLoop

    def try_all_removals(self, begin: Begin = ignore_progress) -> dict[str, AloneRemoval]:
        """Try to remove each node while all other nodes stay, and return the results by node name."""
        names = [node.metadata.name for node in self.loop.nodes]
        return {
            name: self._try_single_removal(self.loop.get_node_row(name))
            for name in iter_with_progress(begin, "Taking nodes away", names)
        }

    @cached_property
    def _snapshot(self) -> ClusterSnapshot:
        """A fork of the loop's snapshot for the trials, which leave the original unchanged."""
        return self.loop.snapshot.fork()

    @cached_property
    def _removal_simulator(self) -> RemovalSimulator:
        """The simulator that removes nodes from the fork."""
        loop = self.loop
        budgets = RemainingBudgets(loop.cluster.pod_disruption_budgets)
        return RemovalSimulator(
            self._snapshot, Drainability(loop.cluster, loop.options, budgets, loop.now), loop.get_pod
        )

    @cached_property
    def _acceptable_mask(self) -> Bools:
        """The nodes of the loop, to which pods may move, as an (M,) mask of the universe's nodes."""
        return build_row_mask(self.loop, self.loop.nodes)

    @cached_property
    def _accepting_nodes_by_kind(self) -> dict[int, Bools | None]:
        """The cache of ``_find_accepting_nodes``: the nodes that accept the pods of a PodInfo, by the PodInfo's number.

        The value is None if the answer also depends on pods on other nodes.
        """
        return {}

    def find_blocking_pods(self, removals: Mapping[str, AloneRemoval]) -> dict[str, NodeKeepers]:
        """Return the pods that block the removal of each node, by node name.

        The result also has the obstacle that would remain without these pods. ``removals`` are the results of
        ``try_all_removals``. Nodes that no pod blocks are left out.
        """
        return {
            name: self._collect_blocking_pods(self.loop.get_node_row(name), removal)
            for name, removal in removals.items()
            if removal.blocking_pod
        }

    def _collect_blocking_pods(self, row: Row, removal: AloneRemoval) -> NodeKeepers:
        """Collect all obstacles to the removal of a node, treating each as removed in the next trial.

        A pod with several obstacles occurs several times.
        """
        blocking_pods: list[BlockingPod] = []
        lifted = self._removal_simulator.rules.lifted
        while removal.blocking_pod is not None:
            blocking_pods.append(removal.blocking_pod)
            # The next trial ignores this obstacle
            lifted.add((removal.blocking_pod.pod, removal.blocking_pod.reason))
            removal = self._try_single_removal(row)
        lifted.clear()
        return NodeKeepers(tuple(blocking_pods), removal.reason or "")

    def _try_single_removal(self, row: Row) -> AloneRemoval:
        """Try to remove only this node, and return the result.

        The snapshot stays unchanged, but the hints and the place of the last search are forgotten.
        """
        moves = self._removal_simulator.plan_drain(row)
        if moves.blocking is None and self._do_pods_certainly_fit_on_other_nodes(row, moves.pods):
            return AloneRemoval(
                removable=True, pods=list_pod_keys(moves.pods), on_completion=list_pod_keys(moves.awaited)
            )
        self._snapshot.cursor = SearchCursor()  # so that the result does not depend on earlier trials
        self._removal_simulator.hints.clear()
        removal = self._removal_simulator.try_node_removal(row, self._acceptable_mask, keep=False)
        if removal.reason:
            return AloneRemoval(reason=removal.reason, blocking_pod=build_blocking_pod_report(removal))
        return AloneRemoval(
            removable=True, pods=list_pod_keys(removal.moves.pods), on_completion=list_pod_keys(removal.moves.awaited)
        )

    def _do_pods_certainly_fit_on_other_nodes(self, row: Row, pods: Sequence[Pod]) -> bool:
        """Return whether each pod is accepted by at least as many other nodes as there are pods to move.

        All pods then fit on other nodes in any order, so that no trial is needed. Return False if the answer for one of
        the pods also depends on pods on other nodes.
        """
        for pod in pods:
            accepting = self._find_accepting_nodes(self.loop.get_position(pod))
            if accepting is None:
                return False
            other_accepting_count = int(accepting.sum()) - int(accepting[row])
            if other_accepting_count < len(pods):
                return False
        return True

    def _find_accepting_nodes(self, position: Position) -> Bools | None:
        """Return a mask (M,) of the universe's nodes that may receive moved pods and that accept this pod.

        Return None if the answer also depends on pods on other nodes. The result is cached for pods with the same
        PodInfo.
        """
        info_number = self._snapshot.universe.pods.get_info_number(position)
        if info_number not in self._accepting_nodes_by_kind:
            accepting = self._snapshot.find_accepting_nodes(position)
            self._accepting_nodes_by_kind[info_number] = (
                None if accepting is None else accepting & self._acceptable_mask
            )
        return self._accepting_nodes_by_kind[info_number]


class UtilizationRules(NamedTuple):
    """Rules that decide which pods are left out of a node's utilization."""

    skip_daemon_sets: bool
    skip_mirror_pods: bool
    now: int

    @classmethod
    def for_group(cls, options: AutoscalerOptions, group: AutoscaledGroup, now: int) -> UtilizationRules:
        """Build the rules for a group at the time ``now``. The group's own options take precedence over the flags."""
        group_option = group.options.ignore_daemon_sets_utilization
        skip_daemon_sets = options.ignore_daemon_sets_utilization if group_option is None else group_option
        return cls(skip_daemon_sets, options.ignore_mirror_pods_utilization, now)

    def is_pod_skipped(self, pod: Pod) -> bool:
        """Return whether the utilization leaves out pods of this kind under the rules."""
        if self.skip_daemon_sets and is_daemon_set_pod(pod):
            return True
        return self.skip_mirror_pods and is_mirror_pod(pod)


def compute_utilization(
    node: Node, pods: Iterable[tuple[Pod, _Requested]], rules: UtilizationRules, options: AutoscalerOptions
) -> Utilization | None:
    """Compute a node's utilization from its pods' requests.

    On GPU nodes, only the utilization of the GPU counts. On other nodes, the higher utilization of CPU and memory
    counts. The result is None if such a node offers no CPU or no memory.
    """
    pods = list(pods)
    allocatable = node_facts.get_allocatable_amounts(node)
    if has_gpu_label(node, options):
        gpu = _compute_requested_share(node_facts.GPU, allocatable, pods, rules) or 0.0
        return Utilization(gpu=gpu, resource=node_facts.GPU, value=gpu)
    cpu, memory = (_compute_requested_share(name, allocatable, pods, rules) for name in ("cpu", "memory"))
    if cpu is None or memory is None:
        return None
    higher = "cpu" if cpu > memory else "memory"
    return Utilization(cpu=cpu, memory=memory, resource=higher, value=max(cpu, memory))


def has_gpu_label(node: Node, options: AutoscalerOptions) -> bool:
    """Return whether the node has the label that marks nodes with GPUs."""
    return options.gpu_label in node.metadata.labels


def _compute_requested_share(
    name: str, allocatable: _Requested, pods: Iterable[tuple[Pod, _Requested]], rules: UtilizationRules
) -> float | None:
    """Return the share of a resource that pods request, or None if the node does not offer the resource.

    The requests of pods that the rules skip are subtracted from the available amount. Pods that have been terminating
    for a long time are ignored. If the skipped pods request all of the resource, the share is infinite, or NaN if no
    other pod requests any.
    """
    available = allocatable.get(name, 0)
    requested = 0
    if not available:
        return None
    for pod, requests in pods:
        if rules.is_pod_skipped(pod):
            available -= requests.get(name, 0)
        elif not is_long_terminating(pod, rules.now):
            requested += requests.get(name, 0)
    if available:
        return requested / available
    # as upstream's division of floats by 0, if skipped pods request all there is
    return float("inf") if requested else float("nan")
