"""Replay of more pods of a tier with preemption, to see which pods they would preempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kschedctl.api.ownership import find_owner
from kschedctl.commands.audit.audited_cluster import PriorityLimits
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

NOT_GROWING_KINDS = ("DaemonSet", "Node")
"""Owner kinds whose pods are bound to nodes one by one, so that there cannot be more of them."""


class Growth(NamedTuple):
    """What happens if a tier grows."""

    tier: GrownTier | None = None
    """The tier that grew, None if no tier can grow."""
    victims: tuple[EvictedWorkload, ...] = ()
    """The preempted pods, in order."""
    unknown: tuple[UnknownKind, ...] = ()
    """The unread data that the replay depends on."""


def grow_tier(scheduler: Scheduler, tiers: Tiers, limits: PriorityLimits, done: Callable[[int], None]) -> Growth:
    """Replay more pods of a tier and return the pods that they preempt. Raises UsageError for an unknown tier."""
    number = _find_most_common_info(scheduler, tiers, limits)
    if number is None or not limits.grow:
        return Growth()
    pods, simulation = tiers.pods, Simulation(scheduler)
    template_pod = tiers.find_pod_with_info(number)
    outcomes = simulation.schedule(simulation.view.clone(template_pod, limits.grow), done)
    message = next((o.message for o in simulation.explain(outcomes) if o.row < 0), "")
    simulation.preemption = False  # nobody else is evicted for those who come back
    simulation.schedule(recreate_gone(simulation, list_victims(outcomes)))
    tier = int(tiers.tier_by_info[number])
    report = GrownTier(
        tier=tiers.names[tier],
        priority=int(tiers.priorities[tier]),
        like=pods.objects[template_pod].key,
        workload=str(find_owner(pods.objects[template_pod])),
        asked=limits.grow,
        placed=sum(outcome.row >= 0 for outcome in outcomes),
        message=message,
    )
    return Growth(report, _group_by_workload(tiers, report_evictions(simulation)), find_simulation_unknowns(simulation))


def _find_most_common_info(scheduler: Scheduler, tiers: Tiers, limits: PriorityLimits) -> int | None:
    """Return the number of the PodInfo that most pods of the tier have, among those that can be cloned, or None."""
    counts = np.bincount(tiers.pods.info, minlength=len(tiers.pods.infos))
    counts[~tiers.pods.where(lambda info: _can_clone(scheduler, info))] = 0
    chosen = _find_tier(tiers, limits.tier)
    if chosen is None:
        user_counts = counts * ~tiers.is_system[tiers.tier_by_info]
        chosen = min(tiers.tier_by_info[user_counts > 0].tolist(), default=None)
    if chosen is None:
        return None
    counts[tiers.tier_by_info != chosen] = 0
    return int(counts.argmax()) if counts.any() else None


def _can_clone(scheduler: Scheduler, info: PodInfo) -> bool:
    """Return whether another equal pod could be created: no claims or groups of its own, and served by a profile."""
    spec = info.spec
    has_claims = spec.resource_claims or any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes)
    if has_claims or spec.scheduling_group is not None or find_owner(info.pod).kind in NOT_GROWING_KINDS:
        return False
    return not info.terminating and scheduler.framework(spec.scheduler_name) is not None


def _find_tier(tiers: Tiers, tier_name: str) -> int | None:
    """Return the number of the tier with a class or value, None for an empty name. Raises UsageError."""
    if not tier_name:
        return None
    for tier, (name, value) in enumerate(zip(tiers.names, tiers.priorities.tolist(), strict=True)):
        if tier_name in (str(value), *name.split(", ")):
            return tier
    raise UsageError(f'no pod has priority "{tier_name}"', where="--tier", hint=f"there are: {', '.join(tiers.names)}")


def _group_by_workload(tiers: Tiers, evicted: tuple[EvictedPod, ...]) -> tuple[EvictedWorkload, ...]:
    """Group preempted pods by workload, in order of first preemption, without pods that terminate anyway."""
    groups: dict[str, list[EvictedPod]] = {}
    for evicted_pod in evicted:
        if not tiers.pods.terminating[_get_info_number(tiers, evicted_pod)]:
            groups.setdefault(evicted_pod.workload, []).append(evicted_pod)
    workloads = []
    for workload, pods in groups.items():
        number = _get_info_number(tiers, pods[0])
        workloads.append(
            EvictedWorkload(
                workload=workload,
                tier=tiers.names[int(tiers.tier_by_info[number])],
                priority=pods[0].priority,
                pods=tuple(pods),
                services=tiers.services[number],
            )
        )
    return tuple(workloads)


def _get_info_number(tiers: Tiers, evicted: EvictedPod) -> int:
    """Return the number of a preempted pod's PodInfo."""
    return int(tiers.pods.info[tiers.pods.index[evicted.pod]])
