"""The random order in which displaced pods come back, and what holds for every order.

Evictions go on side by side, controllers recreate pods in any order, and a Job waits at least ten seconds before it
does. Upstream: pkg/controller/job/backoff_utils.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random

import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import find_owner
from kschedctl.replay.repeated_runs import spread_over_runs
from kschedctl.reports.placements import Spread, UnplacedPods
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import run_post_filter
from kschedctl.scheduler.engine.pre_filter import select_allowed_nodes
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation


def shuffle_returns(simulation: Simulation, positions: Iterable[Position], random: Random) -> list[Position]:
    """Return the pods in a random order in which they may come back; those of Jobs come last."""
    pods, order = simulation.view.pods.objects, list(positions)
    random.shuffle(order)
    return sorted(order, key=lambda position: find_owner(pods[position]).kind == "Job")


def spread_unplaced(unplaced_by_run: Sequence[Iterable[UnplacedPods]]) -> dict[str, Spread]:
    """Return, by workload, the lowest and highest number of pods without a node over all runs."""
    counts = [Counter({group.workload: 0 for group in groups}) for groups in unplaced_by_run]
    for count, groups in zip(counts, unplaced_by_run, strict=True):
        for group in groups:
            count[group.workload] += len(group.pods)
    return spread_over_runs(counts)


def count_always_unplaced(emptied: Simulation, outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Count, by workload, the pods without a node that fit nowhere even if no other pod comes back.

    ``emptied`` is the simulation after the pods left their nodes and before any is placed. Others that come back only
    take room away, except for pods that affinity or spreading counts: rejections that these could lift prove nothing.
    """
    pods, unplaced = emptied.view.pods, Counter[str]()
    cache: dict[int, bool] = {}
    for outcome in outcomes:
        position, shape = outcome.position, int(pods.info[outcome.position])
        if outcome.row >= 0 or emptied.view.node[position] >= 0:
            continue
        if shape not in cache:
            cache[shape] = _is_always_rejected(emptied.run_cycle(position))
        unplaced[str(find_owner(pods.objects[position]))] += cache[shape]
    return dict(+unplaced)


def _is_always_rejected(cycle: Cycle) -> bool:
    """Return whether every node is rejected by a plugin that no additional pod could satisfy."""
    liftable = {PodTopologySpread.name} | ({InterPodAffinity.name} if cycle.info.required_affinity else set())
    pre_filter = cycle.pre_filter
    if cycle.gated or cycle.error is not None or cycle.schedulable or run_post_filter(cycle).nominated_node:
        return False
    if pre_filter.status.rejected:
        return pre_filter.plugin not in liftable
    verdicts = (verdict.rejected for name, verdict in cycle.filter.verdicts.items() if name not in liftable)
    return bool(np.logical_or.reduce([~select_allowed_nodes(pre_filter, cycle.view), *verdicts]).all())


def combine_always_unplaced(runs: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the highest counts over all runs, as what one run proves holds for all."""
    most: dict[str, int] = {}
    for run in runs:
        most |= {workload: max(number, most.get(workload, 0)) for workload, number in run.items()}
    return most
