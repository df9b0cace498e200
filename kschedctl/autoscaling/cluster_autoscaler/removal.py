"""A node taken away on trial: whether its pods may move, and find room elsewhere.

Upstream: simulator/cluster.go (1.36). While they look for room the node is there, empty and tainted, as a domain of
topologies; once they have it the node is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.objects import Node, Pod, Taint
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.drainability import Drainability, Moves, moves
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.nodes import TO_BE_DELETED
from kschedctl.autoscaling.cluster_autoscaler.placing import Hints, place_pods
from kschedctl.reports.scale_down import BlockingPod

NO_PLACE, BLOCKED = "NoPlaceToMovePods", "BlockedByPod"


@dataclass(frozen=True)
class Removal:
    """``reason``: why the node has to stay, empty: it may go; ``placed``: pod -> the row to which it moves."""

    moves: Moves
    reason: str = ""
    placed: dict[str, Row] = field(default_factory=dict)


@dataclass(eq=False)
class Removals:
    """Nodes taken away one after the other; ``pod`` tells the pod of a position."""

    snapshot: ClusterSnapshot
    rules: Drainability
    pod: Callable[[Position], Pod]
    hints: Hints = field(default_factory=dict)

    def moves(self, row: Row) -> Moves:
        """What becomes of the pods of a node when it goes."""
        return moves(map(self.pod, self.snapshot.on(row)), self.rules)

    def try_node(self, row: Row, acceptable: Bools, *, keep: bool) -> Removal:
        """Take a node away if its pods find room on the acceptable ones; ``keep``: it stays away then."""
        positions = self.snapshot.on(row)
        of_pod = {self.pod(position).key: position for position in positions}
        moved = moves(map(self.pod, positions), self.rules)
        if moved.blocking:
            return Removal(moved, BLOCKED)
        placed = self._moved(row, positions, [(pod, of_pod[pod.key]) for pod in moved.pods], acceptable, keep=keep)
        return Removal(moved, NO_PLACE) if placed is None else Removal(moved, placed=placed)

    def _moved(
        self,
        row: Row,
        here: Sequence[Position],
        moving: list[tuple[Pod, Position]],
        acceptable: Bools,
        *,
        keep: bool,
    ) -> dict[str, Row] | None:
        """Pod -> where it went; None where one found no room, and all is as it was."""
        snapshot = self._tainted(row) if self._counts_taints() else self.snapshot
        for position in here:
            snapshot.take(position)
        others = acceptable.copy()
        others[row] = False
        placed = place_pods(snapshot, moving, others, self.hints, all_or_none=True)
        done = len(placed) == len(moving)
        if done and keep:
            snapshot.remove(row)
            self.snapshot = snapshot
            return placed
        for pod, position in moving:
            if pod.key in placed:
                snapshot.take(position)
        snapshot.put_back(row, here)
        return placed if done else None

    def _counts_taints(self) -> bool:
        """Whether some pod is spread over the nodes only whose taints it tolerates."""
        infos = self.snapshot.universe.pods.infos
        return any(
            constraint.node_taints_policy == "Honor"
            for info in infos
            for constraint in info.spec.topology_spread_constraints
        )

    def _tainted(self, row: Row) -> ClusterSnapshot:
        node = self.snapshot.universe.nodes.objects[row]
        taint = Taint(TO_BE_DELETED, str(self.rules.now // 10**6), "NoSchedule")
        return self.snapshot.with_node(row, replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint))))


def rows_of(loop: AutoscalerLoop, nodes: Iterable[Node]) -> Bools:
    """(M,) by row of the universe: these nodes."""
    chosen = np.zeros(len(loop.snapshot.universe.nodes), np.bool_)
    chosen[[loop.row(node.metadata.name) for node in nodes]] = True
    return chosen


def blocking_pod(removal: Removal) -> BlockingPod | None:
    """The pod that keeps the node, as it is reported."""
    if removal.moves.blocking is None:
        return None
    pod, reason = removal.moves.blocking
    return BlockingPod(pod.key, reason)
