"""TODO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random

import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import find_owner
from kschedctl.replay.repeated_runs import over_runs
from kschedctl.reports.placements import Spread, UnplacedPods
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.post_filter import run_post_filter
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation


def order_of_return(simulation: Simulation, positions: Iterable[Position], random: Random) -> list[Position]:
    """The pods in one of the orders in which they may come back, those of Jobs after the others."""
    pods, order = simulation.view.pods.objects, list(positions)
    random.shuffle(order)
    return sorted(order, key=lambda position: find_owner(pods[position]).kind == "Job")


def unplaced_over_runs(runs: Sequence[Iterable[UnplacedPods]]) -> dict[str, Spread]:
    """Workload -> how many of its pods get no node in the orders that were tried: the least and the most."""
    counts = [Counter({group.workload: 0 for group in groups}) for groups in runs]
    for count, groups in zip(counts, runs, strict=True):
        for group in groups:
            count[group.workload] += len(group.pods)
    return over_runs(counts)


def in_no_order(emptied: Simulation, outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Workload -> how many of the pods without a node fit nowhere even where nobody else came back, or made room.

    ``emptied``: the pods that come back have left their nodes, and nobody is placed. Others that come back only take
    room away, but for those that affinity or spreading counts: a refusal that these could lift proves nothing.
    """
    pods, unplaced = emptied.view.pods, Counter[str]()
    known: dict[int, bool] = {}
    for outcome in outcomes:
        position, number = outcome.position, int(pods.info[outcome.position])
        if outcome.row >= 0 or emptied.view.node[position] >= 0:
            continue
        if number not in known:
            known[number] = _refused_for_good(emptied.cycle(position))
        unplaced[str(find_owner(pods.objects[position]))] += known[number]
    return dict(+unplaced)


def _refused_for_good(cycle: Cycle) -> bool:
    """Whether every node is refused by a plugin to which no pod more could be of help."""
    lifted = {PodTopologySpread.name} | ({InterPodAffinity.name} if cycle.info.required_affinity else set())
    before = cycle.pre_filter
    if cycle.gated or cycle.error is not None or cycle.schedulable or run_post_filter(cycle).nominated_node:
        return False
    if before.status.rejected:
        return before.plugin not in lifted
    verdicts = (verdict.rejected for name, verdict in cycle.filter.verdicts.items() if name not in lifted)
    return bool(np.logical_or.reduce([~selected_by_name(before, cycle.view), *verdicts]).all())


def most_in_no_order(runs: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """What each run proves holds for all."""
    most: dict[str, int] = {}
    for run in runs:
        most |= {workload: max(number, most.get(workload, 0)) for workload, number in run.items()}
    return most
