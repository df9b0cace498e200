"""Trial removal of a node: whether its pods may move, and find room elsewhere.

Upstream: simulator/cluster.go (1.36). While pods look for room, the node is still there, empty and tainted, as a
topology domain. Once they have room, the node is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.objects import Node, Pod, Taint
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.drainability import Drainability, DrainPlan, moves
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.nodes import TO_BE_DELETED
from kschedctl.autoscaling.cluster_autoscaler.placing import Hints, place_pods
from kschedctl.reports.scale_down import BlockingPod

NO_PLACE, BLOCKED = "NoPlaceToMovePods", "BlockedByPod"


@dataclass(frozen=True)
class Removal:
    """The result of a trial removal."""

    moves: DrainPlan
    reason: str = ""
    """Why the node has to stay, or ""."""
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
        """Return what becomes of a node's pods when it is removed."""
        return moves(map(self.get_pod, self.snapshot.pods_on(row)), self.rules)

    def try_node(self, row: Row, acceptable: Bools, *, keep: bool) -> Removal:
        """Remove a node if its pods find room on the acceptable ones. With ``keep`` it stays removed."""
        positions = self.snapshot.pods_on(row)
        of_pod = {self.get_pod(position).key: position for position in positions}
        moved = moves(map(self.get_pod, positions), self.rules)
        if moved.blocking:
            return Removal(moved, BLOCKED)
        placed = self._move_pods(row, positions, [(pod, of_pod[pod.key]) for pod in moved.pods], acceptable, keep=keep)
        return Removal(moved, NO_PLACE) if placed is None else Removal(moved, placed=placed)

    def _move_pods(
        self,
        row: Row,
        here: Sequence[Position],
        moving: list[tuple[Pod, Position]],
        acceptable: Bools,
        *,
        keep: bool,
    ) -> dict[str, Row] | None:
        """Return where each pod went, or None with everything restored if one found no room."""
        snapshot = self._taint_node(row) if self._has_taint_aware_spreading() else self.snapshot
        for position in here:
            snapshot.take_pod(position)
        others = acceptable.copy()
        others[row] = False
        placed = place_pods(snapshot, moving, others, self.hints, all_or_none=True)
        done = len(placed) == len(moving)
        if done and keep:
            snapshot.remove_node(row)
            self.snapshot = snapshot
            return placed
        for pod, position in moving:
            if pod.key in placed:
                snapshot.take_pod(position)
        snapshot.put_back(row, here)
        return placed if done else None

    def _has_taint_aware_spreading(self) -> bool:
        """Return whether some pod's spreading counts only nodes whose taints it tolerates."""
        infos = self.snapshot.universe.pods.infos
        return any(
            constraint.node_taints_policy == "Honor"
            for info in infos
            for constraint in info.spec.topology_spread_constraints
        )

    def _taint_node(self, row: Row) -> ClusterSnapshot:
        node = self.snapshot.universe.nodes.objects[row]
        taint = Taint(TO_BE_DELETED, str(self.rules.now // 10**6), "NoSchedule")
        return self.snapshot.with_node(row, replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint))))


def mask_rows(loop: AutoscalerLoop, nodes: Iterable[Node]) -> Bools:
    """Return the mask of these nodes by row of the universe, (M,)."""
    chosen = np.zeros(len(loop.snapshot.universe.nodes), np.bool_)
    chosen[[loop.get_row(node.metadata.name) for node in nodes]] = True
    return chosen


def report_blocking_pod(removal: Removal) -> BlockingPod | None:
    """Return the pod that keeps the node for the report, or None."""
    if removal.moves.blocking is None:
        return None
    pod, reason = removal.moves.blocking
    return BlockingPod(pod.key, reason)
