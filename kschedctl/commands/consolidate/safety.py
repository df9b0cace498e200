"""Conditions that must hold once nodes are removed: headroom, pods that must fit, and the loss of any zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.cluster import Cluster
from kschedctl.commands.consolidate.report import RequestedShare, ZoneLoss
from kschedctl.commands.failures import simulate_failures
from kschedctl.replay.edits import change_nodes, change_pods, find_pods_on_nodes
from kschedctl.replay.parallel import ONE_PROCESS, Workers
from kschedctl.replay.settling import build_replacement
from kschedctl.reports.placements import MovedPod
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import format_significant


class RequiredRoom(NamedTuple):
    """The room that must be left once nodes are removed."""

    scheduler: Scheduler
    headroom: float = 0.0
    """The percentage of cpu and memory that stays free."""
    pods: Sequence[Position] = ()
    """The pods that must fit in addition."""
    fits_now: bool = True
    """True if these pods fit before any node is removed."""

    def find_shortage(self, view: Fork, remaining: Bools) -> str:
        """Return why the nodes in the mask `remaining` (N,) have too little room, or "" if there is enough."""
        if self.headroom:
            for name in (CPU, MEMORY):
                requested = _compute_requested_percentage(view, remaining, view.resources[name])
                if requested > 100 - self.headroom:
                    would_be_free = f"{format_significant(100 - requested, 3)}% would be free"
                    return f"{name}: {would_be_free}, --headroom requires {format_significant(self.headroom, 3)}%"
        if self.pods and not self.fits_on(view, remaining):
            if self.fits_now:
                return "the pods of --headroom-for would no longer fit"
            return "the pods of --headroom-for do not fit even before a node is removed"
        return ""

    def fits_on(self, view: Fork, remaining: Bools) -> bool:
        """Return whether the pods fit on the nodes in the mask `remaining` (N,).

        Raises KeyboardInterrupt if the user interrupts.
        """
        simulation = Simulation(self.scheduler, view.without_nodes(~remaining), preemption=False)
        return all(outcome.is_placed for outcome in simulation.schedule_or_raise_interrupt(self.pods))


def compute_requested_shares(before: Fork, after: Fork, remaining: Bools, workers: Bools) -> list[RequestedShare]:
    """Return the requested percentages of CPU and memory before and after nodes are removed.

    `workers` and `remaining` are the masks (N,) of the nodes that count before and after.
    """
    shares = []
    for name in (CPU, MEMORY):
        column = before.resources[name]
        share_before = _compute_requested_percentage(before, workers, column)
        share_after = _compute_requested_percentage(after, remaining, column)
        shares.append(RequestedShare(name, share_before, share_after))
    return shares


def _compute_requested_percentage(view: Fork, nodes: Bools, column: int) -> float:
    """Return the percentage of the resource in `column` that is requested on the nodes in a mask (N,).

    The percentage is 0 if the nodes offer nothing.
    """
    offered = int(view.allocatable[nodes, column].sum())
    if not offered:
        return 0.0
    return 100 * int(view.requested[nodes, column].sum()) / offered


def simulate_zone_losses(before: Cluster, after: Cluster, workers: Workers = ONE_PROCESS) -> list[ZoneLoss]:
    """Return the number of pods without a node after the loss of each zone, before and after nodes are removed.

    Zones that were removed cannot be lost. Raises UsageError if nodes name no zone.
    """
    unplaced_before = _count_unplaced_pods(before, workers)
    unplaced_after = _count_unplaced_pods(after, workers) if after.nodes else {}
    return [ZoneLoss(zone, unplaced_before[zone], unplaced_after.get(zone, 0)) for zone in sorted(unplaced_before)]


def _count_unplaced_pods(cluster: Cluster, workers: Workers) -> dict[str, int]:
    """Count, by zone, the pods without a node after the loss of the zone."""
    return {loss.name: loss.unplaced for loss in simulate_failures(cluster, "zone", workers=workers).failures}


def remove_nodes_and_move_pods(cluster: Cluster, nodes: Sequence[str], moves: Sequence[MovedPod]) -> Cluster:
    """Return the cluster without the nodes, and with the pods in `moves` on their new nodes.

    Pods of these nodes that do not move are removed as well.
    """
    names = frozenset(nodes)
    remaining_cluster = change_nodes(cluster, lambda node: None if node.metadata.name in names else node)
    targets: Mapping[str, str] = {move.pod: move.target for move in moves}
    changes = {}
    for pod in find_pods_on_nodes(cluster, nodes):
        target = targets.get(pod.key)
        key = pod.metadata.namespace, pod.metadata.name
        changes[key] = None if target is None else build_replacement(pod, target, cluster)
    return change_pods(remaining_cluster, changes)
