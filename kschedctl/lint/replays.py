"""How many more pods of workloads find a node in the cluster as it is: the scheduler places them, evicting nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import ADDED_LABELS
from kschedctl.lint.facts import Facts, unencumbered
from kschedctl.lint.workload import Workload
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import SCHEDULED, UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

MOST_PLACED = 1000
"""Of a workload no more pods are placed; one that has room for so many has room."""
FIT = "NodeResourcesFit"


class Placed(NamedTuple):
    """``number``: of the pods that found a node; where one found none, ``lacking``: what nodes lack that would do else.

    ``evicts``: it could go where others would have to leave.
    """

    number: int
    lacking: str = ""
    evicts: bool = False


def placed_now(facts: Facts, wanted: Mapping[Workload, int]) -> dict[Workload, Placed]:
    """Of so many more pods of each of the workloads, each by itself.

    Their volumes, claims and gates are left out: what those refer to may be created together with the workload. What no
    profile serves, and what leans on something that was not read, is not there.
    """
    asked = [workload for workload in wanted if facts.framework(workload) is not None]
    if not asked:
        return {}
    pods = [_pod(workload, number) for number, workload in enumerate(asked)]
    scheduler = Scheduler(facts.cluster.with_objects({"Pod": pods}))
    keys = [pod.key for pod in pods]
    return {w: _placed(scheduler, key, min(wanted[w], MOST_PLACED)) for w, key in zip(asked, keys, strict=True)}


def _pod(workload: Workload, number: int) -> Pod:
    """One that its controller would make, under a name that no pod of the cluster has."""
    pod = unencumbered(workload.pod)
    labels = {**pod.metadata.labels, **dict.fromkeys(ADDED_LABELS.get(workload.kind, ()), "lint")}
    meta = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}~lint-{number}", labels=labels)
    return msgspec.structs.replace(pod, metadata=meta)


def _placed(scheduler: Scheduler, key: str, wanted: int) -> Placed:
    simulation = Simulation(scheduler, preemption=False)
    view = simulation.view
    first = view.pods.index[key]
    for count, position in enumerate([first, *view.clone(first, wanted - 1)]):
        outcome = simulation.attempt(position) or Outcome(position, UNSCHEDULABLE)
        if outcome.verdict == UNSCHEDULABLE:
            return _stopped(simulation, position, count)
        if outcome.verdict != SCHEDULED:
            break
    return Placed(wanted)


def _stopped(simulation: Simulation, position: Position, count: int) -> Placed:
    cycle = simulation.cycle(position)
    if cycle.error is not None:
        return Placed(count)
    evicting = Simulation(simulation.scheduler, simulation.view).attempt(position)
    return Placed(count, _lacking(cycle), evicts=evicting is not None and bool(evicting.victims))


def _lacking(cycle: Cycle) -> str:
    """``4 Insufficient cpu, 1 Too many pods``: of the nodes that have nothing but requests against the pod."""
    verdicts = cycle.filter.verdicts
    if FIT not in verdicts or cycle.pre_filter.status.rejected:
        return ""
    near = verdicts[FIT].refused & cycle.considered
    for name, verdict in verdicts.items():
        near = near if name == FIT else near & ~verdict.refused
    counts = cycle.filter.reason_counts(near).most_common()
    return ", ".join(f"{nodes:,} {reason}" for reason, nodes in counts)
