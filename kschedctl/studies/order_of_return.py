"""In which order pods that lost their node are tried again, which nobody decides.

Evictions go on side by side, controllers make pods anew in any order, and a Job waits before it does: its back-off is
ten seconds at least. Upstream: pkg/controller/job/backoff_utils.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import owner_of
from kschedctl.reports.simulation import Spread, UnplacedPods
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.studies.over_runs import over_runs


def order_of_return(simulation: Simulation, positions: Iterable[Position], random: Random) -> list[Position]:
    """The pods in one of the orders in which they may come back, those of Jobs after the others."""
    pods, found = simulation.view.pods.objects, list(positions)
    random.shuffle(found)
    return sorted(found, key=lambda position: owner_of(pods[position]).kind == "Job")


def unplaced_over_runs(runs: Sequence[Iterable[UnplacedPods]]) -> dict[str, Spread]:
    """Workload -> how many of its pods get no node: the least, which no order that was tried allows, and the most."""
    counts = [Counter({group.workload: 0 for group in groups}) for groups in runs]
    for count, groups in zip(counts, runs, strict=True):
        for group in groups:
            count[group.workload] += len(group.pods)
    return over_runs(counts)
