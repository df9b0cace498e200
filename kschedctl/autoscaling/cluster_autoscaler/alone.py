"""Removal of each node alone: whether it could be removed, and what keeps it, independent of other nodes.

Upstream: simulator/cluster.go (1.36), asked for one node at a time on the cluster as it is.
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
from kschedctl.reports.scale_down import AloneRemoval, BlockingPod, NodeKeepers


@dataclass(eq=False)
class SingleRemovals:
    """The removal of each node as if it were the only one, before anything else is done."""

    loop: AutoscalerLoop

    def try_all(self, begin: Begin = ignore_progress) -> dict[str, AloneRemoval]:
        """Try the removal of each node, by name."""
        names = [node.metadata.name for node in self.loop.nodes]
        return {
            name: self._try_removal(self.loop.get_row(name))
            for name in iter_with_progress(begin, "Taking nodes away", names)
        }

    @cached_property
    def _snapshot(self) -> ClusterSnapshot:
        return self.loop.snapshot.fork()

    @cached_property
    def _removal_simulator(self) -> RemovalSimulator:
        """The simulator of removals on the untouched snapshot."""
        loop = self.loop
        budgets = RemainingBudgets(loop.cluster.pod_disruption_budgets)
        return RemovalSimulator(
            self._snapshot, Drainability(loop.cluster, loop.options, budgets, loop.now), loop.get_pod
        )

    @cached_property
    def _acceptable(self) -> Bools:
        return mask_rows(self.loop, self.loop.nodes)

    @cached_property
    def _takers_by_kind(self) -> dict[int, Bools | None]:
        """Return the nodes that take a pod of each PodInfo, None if that depends on other pods."""
        return {}

    def find_keepers(self, removals: Mapping[str, AloneRemoval]) -> dict[str, NodeKeepers]:
        """Return for each kept node all pods that keep it, and what keeps it once they may move."""
        return {
            name: self._collect_keepers(self.loop.get_row(name), alone)
            for name, alone in removals.items()
            if alone.blocking_pod
        }

    def _collect_keepers(self, row: Row, alone: AloneRemoval) -> NodeKeepers:
        """Return all pods that keep the node, by counting each found one as movable and trying again."""
        keepers: list[BlockingPod] = []
        freed = self._removal_simulator.rules.freed
        while alone.blocking_pod is not None:
            keepers.append(alone.blocking_pod)
            freed.add(alone.blocking_pod.pod)
            alone = self._try_removal(row)
        freed.clear()
        return NodeKeepers(tuple(keepers), alone.reason or "")

    def _try_removal(self, row: Row) -> AloneRemoval:
        """Try the removal of one node without side effects."""
        moves = self._removal_simulator.plan_drain(row)
        if moves.blocking is None and self._finds_room(row, moves.pods):
            return AloneRemoval(True, _list_keys(moves.pods), _list_keys(moves.awaited))
        self._snapshot.searches = SearchOrder()
        self._removal_simulator.hints.clear()
        removal = self._removal_simulator.try_node(row, self._acceptable, keep=False)
        if removal.reason:
            return AloneRemoval(reason=removal.reason, blocking_pod=report_blocking_pod(removal))
        return AloneRemoval(True, _list_keys(removal.moves.pods), _list_keys(removal.moves.awaited))

    def _finds_room(self, row: Row, pods: Sequence[Pod]) -> bool:
        """Return whether every pod fits on more of the other nodes than the pods before it can fill."""
        infos = self._snapshot.universe.pods.info
        for pod in pods:
            position = self.loop.get_position(pod)
            number = int(infos[position])
            if number not in self._takers_by_kind:
                takers = self._snapshot.find_takers(position)
                self._takers_by_kind[number] = None if takers is None else takers & self._acceptable
            takers = self._takers_by_kind[number]
            if takers is None or int(takers.sum()) - int(takers[row]) < len(pods):
                return False
        return True


def _list_keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(pod.key for pod in pods)
