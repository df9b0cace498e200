"""Conditions that must hold once nodes are gone: headroom, pods that must fit, and the loss of any zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.cluster import Cluster
from kschedctl.commands.consolidate.report import RequestedShare, UnitLoss
from kschedctl.commands.failures.losses import failures
from kschedctl.replay.edits import change_nodes, change_pods, find_pods_on
from kschedctl.replay.parallel import ONE_PROCESS, Workers
from kschedctl.replay.settling import build_replacement
from kschedctl.reports.placements import MovedPod
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import format_significant


class Reserve(NamedTuple):
    """Room that must be left."""

    scheduler: Scheduler
    headroom: float = 0.0
    """The percentage of cpu and memory that stays free."""
    pods: Sequence[Position] = ()
    """Pods that must fit in addition."""
    fits_now: bool = True
    """Whether these pods fit without any change."""

    def find_violation(self, view: Fork, left: Bools) -> str:
        """Return why the remaining nodes (N,) have too little room, or ""."""
        for share in compute_shares(view, view, left) if self.headroom else ():
            if share.after > 100 - self.headroom:
                asked = f"--headroom asks for {format_significant(self.headroom, 3)} %"
                return f"{share.resource}: {format_significant(100 - share.after, 3)} % would be free, {asked}"
        if self.pods and not self.fits_on(view, left):
            return f"the pods of --headroom-for {'would not fit any more' if self.fits_now else 'do not fit as it is'}"
        return ""

    def fits_on(self, view: Fork, left: Bools) -> bool:
        """Return whether the pods fit on the remaining nodes."""
        simulation = Simulation(self.scheduler, view.without_nodes(~left), preemption=False)
        return all(outcome.row >= 0 for outcome in simulation.schedule(self.pods))


def compute_shares(before: Fork, after: Fork, left: Bools, workers: Bools | None = None) -> list[RequestedShare]:
    """Return the requested share of all ``workers`` (N,) before, and of the remaining nodes (N,) after."""
    shares = []
    for name in (CPU, MEMORY):
        column = before.resources[name]
        then = _compute_share(before, np.ones_like(left) if workers is None else workers, column)
        shares.append(RequestedShare(name, then, _compute_share(after, left, column)))
    return shares


def _compute_share(view: Fork, nodes: Bools, column: int) -> float:
    offered = int(view.allocatable[nodes, column].sum())
    return 100 * int(view.requested[nodes, column].sum()) / offered if offered else 0.0


def simulate_zone_losses(before: Cluster, after: Cluster, workers: Workers = ONE_PROCESS) -> list[UnitLoss]:
    """Return the pods that the loss of each zone leaves without a node before and after. Removed zones cannot be lost.

    Raises UsageError if nodes name no zone.
    """
    now, then = _count_unplaced(before, workers), _count_unplaced(after, workers) if after.nodes else {}
    return [UnitLoss(zone, now[zone], then.get(zone, 0)) for zone in sorted(now)]


def _count_unplaced(cluster: Cluster, workers: Workers) -> dict[str, int]:
    return {loss.name: loss.unplaced for loss in failures(cluster, "zone", workers=workers).failures}


def remove_nodes(cluster: Cluster, nodes: Sequence[str], moves: Sequence[MovedPod]) -> Cluster:
    """Return the cluster without the nodes, with moved pods on their new nodes and without those that went with a
    node.
    """
    names = frozenset(nodes)
    left = change_nodes(cluster, lambda node: None if node.metadata.name in names else node)
    targets: Mapping[str, str] = {move.pod: move.target for move in moves}
    changes = {}
    for pod in find_pods_on(cluster, nodes):
        target = targets.get(pod.key)
        key = pod.metadata.namespace, pod.metadata.name
        changes[key] = None if target is None else build_replacement(pod, target)
    return change_pods(left, changes)
