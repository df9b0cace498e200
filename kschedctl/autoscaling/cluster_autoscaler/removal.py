"""Trial removal of a node: whether its pods may move and find room elsewhere.

Upstream: simulator/cluster.go (1.36). While its pods are being placed, the node still exists as an empty, tainted
topology domain. It is removed once all of them have room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.objects import Node, Pod, Taint
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.drainability import Drainability, DrainPlan, build_drain_plan
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.nodes import TO_BE_DELETED
from kschedctl.autoscaling.cluster_autoscaler.placing import Hints, place_pods
from kschedctl.reports.cluster_autoscaler import BlockingPod

NO_PLACE, BLOCKED = "NoPlaceToMovePods", "BlockedByPod"


@dataclass(frozen=True)
class Removal:
    """The result of a trial removal."""

    moves: DrainPlan
    reason: str = ""
    """Why the node has to stay, or "" if it can be removed."""
    placed: dict[str, Row] = field(default_factory=dict)
    """The row to which each pod moves."""


@dataclass(eq=False)
class RemovalSimulator:
    """Removes nodes one after the other."""

    snapshot: ClusterSnapshot
    rules: Drainability
    get_pod: Callable[[Position], Pod]
    """Returns the pod at a position."""
    hints: Hints = field(default_factory=dict)

    def plan_drain(self, row: Row) -> DrainPlan:
        """Decide the fate of the node's pods if the node is removed."""
        return build_drain_plan(map(self.get_pod, self.snapshot.get_pods_on(row)), self.rules)

    def try_removal(self, row: Row, acceptable: Bools, *, keep: bool) -> Removal:
        """Remove a node if its pods find room on the acceptable nodes, (M,). With ``keep``, it stays removed."""
        positions = self.snapshot.get_pods_on(row)
        position_by_key = {self.get_pod(position).key: position for position in positions}
        plan = build_drain_plan(map(self.get_pod, positions), self.rules)
        if plan.blocking:
            return Removal(plan, BLOCKED)
        placed = self._move_pods(
            row, positions, [(pod, position_by_key[pod.key]) for pod in plan.pods], acceptable, keep=keep
        )
        return Removal(plan, NO_PLACE) if placed is None else Removal(plan, placed=placed)

    def _move_pods(
        self,
        row: Row,
        on_node: Sequence[Position],
        moving: list[tuple[Pod, Position]],
        acceptable: Bools,
        *,
        keep: bool,
    ) -> dict[str, Row] | None:
        """Move pods to other nodes and return their new rows, or restore everything and return None if one does not
        fit.
        """
        snapshot = self._taint_node(row) if self._has_taint_aware_spreading() else self.snapshot
        for position in on_node:
            snapshot.take_pod(position)
        targets = acceptable.copy()
        targets[row] = False
        placed = place_pods(snapshot, moving, targets, self.hints, all_or_none=True)
        all_placed = len(placed) == len(moving)
        if all_placed and keep:
            snapshot.remove_node(row)
            self.snapshot = snapshot
            return placed
        for pod, position in moving:
            if pod.key in placed:
                snapshot.take_pod(position)
        snapshot.put_back(row, on_node)
        return placed if all_placed else None

    def _has_taint_aware_spreading(self) -> bool:
        """Return whether any pod has a spread constraint that counts only nodes whose taints the pod tolerates."""
        infos = self.snapshot.universe.pods.infos
        return any(
            constraint.node_taints_policy == "Honor"
            for info in infos
            for constraint in info.spec.topology_spread_constraints
        )

    def _taint_node(self, row: Row) -> ClusterSnapshot:
        """Return a fork in which the node has the taint of nodes that are about to be deleted."""
        node = self.snapshot.universe.nodes.objects[row]
        taint = Taint(TO_BE_DELETED, str(self.rules.now // 10**6), "NoSchedule")
        return self.snapshot.with_node(row, replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint))))


def mask_rows(loop: AutoscalerLoop, nodes: Iterable[Node]) -> Bools:
    """Return a mask of these nodes' rows in the universe, (M,)."""
    mask = np.zeros(len(loop.snapshot.universe.nodes), np.bool_)
    mask[[loop.get_row(node.metadata.name) for node in nodes]] = True
    return mask


def report_blocking_pod(removal: Removal) -> BlockingPod | None:
    """Return the pod that blocks the removal in the report's form, or None."""
    if removal.moves.blocking is None:
        return None
    pod, reason = removal.moves.blocking
    return BlockingPod(pod.key, reason)
