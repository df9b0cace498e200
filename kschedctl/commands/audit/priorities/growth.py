"""More pods of a tier replayed, with preemption: who would have to go first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kschedctl.api.ownership import find_owner
from kschedctl.commands.audit.priorities.report import EvictedWorkload, GrownTier
from kschedctl.commands.audit.priorities.tiers import Tiers
from kschedctl.errors import UsageError
from kschedctl.replay.placements import report_evictions
from kschedctl.replay.settling import list_victims, recreate_gone
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.reports.placements import EvictedPod
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.pod_info import PodInfo


@dataclass(frozen=True)
class PriorityLimits:
    """``grow``: by how many pods the top tier, or the one of this name or value, grows; 0: it does not.

    ``starving_seconds``: pods that wait longer starve.
    """

    grow: int = 10
    tier: str = ""
    starving_seconds: float = 3600.0


NOT_GROWING = ("DaemonSet", "Node")
"""Whose pods are one a node, or a node's own."""


class Growth(NamedTuple):
    """The tier that grew, None where none could, the victims in order, and what that leans on and was not read."""

    tier: GrownTier | None = None
    victims: tuple[EvictedWorkload, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()


def grown(scheduler: Scheduler, tiers: Tiers, limits: PriorityLimits, done: Callable[[int], None]) -> Growth:
    """What so many more pods of the tier would do. Raises UsageError for a tier that there is not."""
    number = _typical(scheduler, tiers, limits)
    if number is None or not limits.grow:
        return Growth()
    pods, simulation = tiers.pods, Simulation(scheduler)
    first = tiers.first(number)
    outcomes = simulation.schedule(simulation.view.clone(first, limits.grow), done)
    message = next((o.message for o in simulation.explain(outcomes) if o.row < 0), "")
    simulation.preemption = False  # nobody else is evicted for those who come back
    simulation.schedule(recreate_gone(simulation, list_victims(outcomes)))
    tier = int(tiers.of_info[number])
    report = GrownTier(
        tier=tiers.names[tier],
        priority=int(tiers.values[tier]),
        like=pods.objects[first].key,
        workload=str(find_owner(pods.objects[first])),
        asked=limits.grow,
        placed=sum(outcome.row >= 0 for outcome in outcomes),
        message=message,
    )
    return Growth(report, _by_workload(tiers, report_evictions(simulation)), find_simulation_unknowns(simulation))


def _typical(scheduler: Scheduler, tiers: Tiers, limits: PriorityLimits) -> int | None:
    """The info that most pods of the tier have, among those of which there may be more as they are."""
    counts = np.bincount(tiers.pods.info, minlength=len(tiers.pods.infos))
    counts[~tiers.pods.where(lambda info: _may_grow(scheduler, info))] = 0
    chosen = _tier(tiers, limits.tier)
    if chosen is None:
        users = counts * ~tiers.system[tiers.of_info]
        chosen = min(tiers.of_info[users > 0].tolist(), default=None)
    if chosen is None:
        return None
    counts[tiers.of_info != chosen] = 0
    return int(counts.argmax()) if counts.any() else None


def _may_grow(scheduler: Scheduler, info: PodInfo) -> bool:
    """Whether another pod may be the same in all: without claims and groups of its own, and served by a profile."""
    spec = info.spec
    claims = spec.resource_claims or any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes)
    if claims or spec.scheduling_group is not None or find_owner(info.pod).kind in NOT_GROWING:
        return False
    return not info.terminating and scheduler.framework(spec.scheduler_name) is not None


def _tier(tiers: Tiers, wanted: str) -> int | None:
    """The tier of a class or a value. Raises UsageError."""
    if not wanted:
        return None
    for tier, (name, value) in enumerate(zip(tiers.names, tiers.values.tolist(), strict=True)):
        if wanted in (str(value), *name.split(", ")):
            return tier
    raise UsageError(f'no pod has priority "{wanted}"', where="--tier", hint=f"there are: {', '.join(tiers.names)}")


def _by_workload(tiers: Tiers, evicted: tuple[EvictedPod, ...]) -> tuple[EvictedWorkload, ...]:
    """In the order in which the first of each goes, less those that are leaving anyway."""
    groups: dict[str, list[EvictedPod]] = {}
    for evicted_pod in evicted:
        if not tiers.pods.terminating[_info(tiers, evicted_pod)]:
            groups.setdefault(evicted_pod.workload, []).append(evicted_pod)
    workloads = []
    for workload, pods in groups.items():
        number = _info(tiers, pods[0])
        workloads.append(
            EvictedWorkload(
                workload=workload,
                tier=tiers.names[int(tiers.of_info[number])],
                priority=pods[0].priority,
                pods=tuple(pods),
                services=tiers.services[number],
            )
        )
    return tuple(workloads)


def _info(tiers: Tiers, evicted: EvictedPod) -> int:
    return int(tiers.pods.info[tiers.pods.index[evicted.pod]])
