"""Trial removal of each node by itself, independent of other removals, with the pods that prevent it.

Upstream: simulator/cluster.go (1.36), applied to one node at a time on the unchanged cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kschedctl.api.arrays import Bools, Row
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot, SearchOrder
from kschedctl.autoscaling.cluster_autoscaler.disruption_budgets import RemainingBudgets
from kschedctl.autoscaling.cluster_autoscaler.drainability import Drainability
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop
from kschedctl.autoscaling.cluster_autoscaler.removal import RemovalSimulator, mask_rows, report_blocking_pod
from kschedctl.autoscaling.progress import Begin, ignore_progress, iter_with_progress
from kschedctl.reports.cluster_autoscaler import AloneRemoval, BlockingPod, NodeKeepers


@dataclass(eq=False)
class SingleRemovals:
    """Trial removals of single nodes from the unchanged cluster."""

    loop: AutoscalerLoop

    def try_all(self, begin: Begin = ignore_progress) -> dict[str, AloneRemoval]:
        """Try to remove each node by itself, and return the results by node name."""
        names = [node.metadata.name for node in self.loop.nodes]
        return {
            name: self._try_removal(self.loop.get_row(name))
            for name in iter_with_progress(begin, "Taking nodes away", names)
        }

    @cached_property
    def _snapshot(self) -> ClusterSnapshot:
        """A fork of the loop's snapshot, so that trials leave the original unchanged."""
        return self.loop.snapshot.fork()

    @cached_property
    def _removal_simulator(self) -> RemovalSimulator:
        """The simulator of removals on the fork."""
        loop = self.loop
        budgets = RemainingBudgets(loop.cluster.pod_disruption_budgets)
        return RemovalSimulator(
            self._snapshot, Drainability(loop.cluster, loop.options, budgets, loop.now), loop.get_pod
        )

    @cached_property
    def _acceptable(self) -> Bools:
        """Mask of the nodes to which pods may move, (M,)."""
        return mask_rows(self.loop, self.loop.nodes)

    @cached_property
    def _takers_by_kind(self) -> dict[int, Bools | None]:
        """Cache: number of a PodInfo -> the nodes that take its pods, or None if that depends on other pods."""
        return {}

    def find_blocking_pods(self, removals: Mapping[str, AloneRemoval]) -> dict[str, NodeKeepers]:
        """Return, for each node that a pod blocks, all pods that block it and what prevents its removal without
        them.
        """
        return {
            name: self._collect_blocking_pods(self.loop.get_row(name), removal)
            for name, removal in removals.items()
            if removal.blocking_pod
        }

    def _collect_blocking_pods(self, row: Row, removal: AloneRemoval) -> NodeKeepers:
        """Collect the pods that block a node by treating each one found as movable and trying again."""
        blocking_pods: list[BlockingPod] = []
        freed = self._removal_simulator.rules.freed
        while removal.blocking_pod is not None:
            blocking_pods.append(removal.blocking_pod)
            freed.add(removal.blocking_pod.pod)
            removal = self._try_removal(row)
        freed.clear()
        return NodeKeepers(tuple(blocking_pods), removal.reason or "")

    def _try_removal(self, row: Row) -> AloneRemoval:
        """Try to remove one node, leaving the snapshot unchanged."""
        moves = self._removal_simulator.plan_drain(row)
        if moves.blocking is None and self._have_room_elsewhere(row, moves.pods):
            return AloneRemoval(True, _list_keys(moves.pods), _list_keys(moves.awaited))
        self._snapshot.searches = SearchOrder()
        self._removal_simulator.hints.clear()
        removal = self._removal_simulator.try_removal(row, self._acceptable, keep=False)
        if removal.reason:
            return AloneRemoval(reason=removal.reason, blocking_pod=report_blocking_pod(removal))
        return AloneRemoval(True, _list_keys(removal.moves.pods), _list_keys(removal.moves.awaited))

    def _have_room_elsewhere(self, row: Row, pods: Sequence[Pod]) -> bool:
        """Return whether each pod fits on at least as many other nodes as there are pods, so that all must find
        room.
        """
        infos = self._snapshot.universe.pods.info
        for pod in pods:
            position = self.loop.get_position(pod)
            info_number = int(infos[position])
            if info_number not in self._takers_by_kind:
                takers = self._snapshot.find_accepting_nodes(position)
                self._takers_by_kind[info_number] = None if takers is None else takers & self._acceptable
            takers = self._takers_by_kind[info_number]
            if takers is None or int(takers.sum()) - int(takers[row]) < len(pods):
                return False
        return True


def _list_keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the keys of the pods."""
    return tuple(pod.key for pod in pods)
