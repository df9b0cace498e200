"""Pods that were preempted, that higher tiers may preempt, and that would be preempted if a tier grew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.events import PREEMPTED, count_occurrences, get_last_time
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import PriorityLimits
from kschedctl.commands.audit.priorities.report import EvictedWorkload, ExposedWorkload, GrownTier, PreemptedWorkload
from kschedctl.commands.audit.priorities.tiers import Tiers
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.remaining_quotas import RemainingQuotas
from kschedctl.replay.placements import report_evictions
from kschedctl.replay.settling import list_victims, recreate_gone_pods
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.reports.placements import EvictedPod
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.pod_info import PodInfo


def find_exposed_workloads(tiers: Tiers) -> tuple[ExposedWorkload, ...]:
    """Return the workloads behind Services that pods of higher non-system tiers may preempt, most pods first.

    There is one entry for each workload and tier.
    """
    is_user_tier = ~tiers.above_user_priorities[tiers.tier_by_pod]
    can_preempt = is_user_tier & tiers.allowed_to_preempt[tiers.pods.info]
    is_job = tiers.owned_by_job[tiers.pods.info]
    preemptors_by_tier = tiers.count_pods_by_tier(can_preempt)
    preemptors_above = _sum_above_each_tier(preemptors_by_tier)
    jobs_above = _sum_above_each_tier(tiers.count_pods_by_tier(can_preempt & is_job))
    running_by_info = np.bincount(tiers.pods.info[tiers.running], minlength=len(tiers.pods.infos))

    exposed_workloads = []
    for (workload, tier), info_numbers in _group_infos_behind_services(tiers, running_by_info).items():
        if not preemptors_above[tier]:
            continue
        exposed_workloads.append(
            ExposedWorkload(
                workload=workload,
                tier=tiers.names[tier],
                priority=int(tiers.priorities[tier]),
                pods=int(running_by_info[info_numbers].sum()),
                services=tiers.services[info_numbers[0]],
                tiers_above=tuple(tiers.names[above] for above in range(tier) if preemptors_by_tier[above]),
                pods_above=preemptors_above[tier],
                jobs_above=jobs_above[tier],
                budgets=_find_protecting_budgets(tiers, info_numbers),
            )
        )
    return tuple(sorted(exposed_workloads, key=lambda exposed: (-exposed.pods, exposed.workload)))


def _sum_above_each_tier(counts: Sequence[int]) -> list[int]:
    """Return, for each tier, the sum of the counts of the tiers above it. The counts begin with the highest tier."""
    return [0, *accumulate(counts)][: len(counts)]


def _group_infos_behind_services(tiers: Tiers, running_by_info: Counts) -> dict[tuple[str, int], list[int]]:
    """Return the numbers of the PodInfos with running pods behind Services, by workload and tier.

    `running_by_info` (T,) is the number of running pods with each PodInfo.
    """
    numbers_by_workload: dict[tuple[str, int], list[int]] = {}
    for number in np.flatnonzero(tiers.behind_service & (running_by_info > 0)).tolist():
        workload = str(find_owner(tiers.pods.infos[number].pod))
        tier = int(tiers.tier_by_info[number])
        numbers_by_workload.setdefault((workload, tier), []).append(number)
    return numbers_by_workload


def _find_protecting_budgets(tiers: Tiers, info_numbers: list[int]) -> tuple[str, ...]:
    """Return the PDBs that protect the pods with the PodInfos of these numbers."""
    budgets = get_budgets(tiers.view)
    names = (
        name for number in info_numbers for name in budgets.find_protecting_budgets(tiers.find_pod_with_info(number))
    )
    return tuple(dict.fromkeys(names))


PREEMPTION_REASON = "PreemptionByScheduler"
RANDOM_SUFFIX_LENGTH = 5
"""The length of the random suffix of names of pods that a controller creates."""


class PreemptedPod(NamedTuple):
    """A pod that was preempted."""

    namespace: str
    name: str
    times: int
    """The number of times that it was preempted under this name."""
    last: str
    """The time of the last preemption, empty if unknown."""


def find_preempted_workloads(tiers: Tiers) -> tuple[PreemptedWorkload, ...]:
    """Return the workloads that lost pods to preemption, with the number of preemptions, most preemptions first."""
    cluster = tiers.view.cluster
    workload_index = PodWorkloadIndex(cluster)
    victims_by_workload: dict[str, list[PreemptedPod]] = {}
    for victim in _iter_preempted_pods(cluster):
        workload = str(workload_index.resolve_workload(victim.namespace, victim.name))
        victims_by_workload.setdefault(workload, []).append(victim)

    pod_counts = _count_pods_by_workload(tiers)
    reports = (
        PreemptedWorkload(
            workload=workload,
            times=sum(victim.times for victim in victims),
            pods=pod_counts[workload],
            last=max(victim.last for victim in victims),
            victims=tuple(dict.fromkeys(f"{victim.namespace}/{victim.name}" for victim in victims)),
        )
        for workload, victims in victims_by_workload.items()
    )
    return tuple(sorted(reports, key=lambda report: (-report.times, report.workload)))


def _count_pods_by_workload(tiers: Tiers) -> Counter[str]:
    """Return the number of pods of each workload. Terminating pods are not counted."""
    count_by_info = np.bincount(tiers.pods.info, minlength=len(tiers.pods.infos))
    count_by_workload: Counter[str] = Counter()
    for info, count in zip(tiers.pods.infos, count_by_info.tolist(), strict=True):
        if count and not info.terminating:
            count_by_workload[str(find_owner(info.pod))] += count
    return count_by_workload


def _iter_preempted_pods(cluster: Cluster) -> Iterator[PreemptedPod]:
    """Yield the preempted pods: those reported by events, and terminating ones that have no event."""
    pods_with_event = set()
    for event in cluster.events:
        reference = event.involved_object
        if event.reason == PREEMPTED and reference.kind in ("", "Pod"):
            pods_with_event.add((reference.namespace, reference.name))
            yield PreemptedPod(reference.namespace, reference.name, count_occurrences(event), get_last_time(event))
    for row in cluster.pods.find_rows(_is_preempted).tolist():
        pod = cluster.pods[row]
        namespace, name = pod.metadata.namespace, pod.metadata.name
        if (namespace, name) not in pods_with_event:
            disrupted_at = cluster.pods.columns.disrupted.get_text(row)
            yield PreemptedPod(namespace, name, 1, disrupted_at)


def _is_preempted(template: Pod) -> bool:
    """Return whether pods of a template are being preempted."""
    return any(
        condition.type == "DisruptionTarget" and condition.reason == PREEMPTION_REASON
        for condition in template.status.conditions
    )


class PodWorkloadIndex:
    """An index of the workloads of pods, including deleted ones, by the prefixes of pod names."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_prefix: dict[tuple[str, str], Owner] = {}

        # A pod's name begins with its ReplicaSet's or StatefulSet's name, whose controller, if any, is the workload.
        for kind, workloads in (("ReplicaSet", cluster.replica_sets), ("StatefulSet", cluster.stateful_sets)):
            for workload in workloads:
                meta = workload.metadata
                controller = find_controller(meta)
                if controller:
                    owner = Owner(controller.kind, meta.namespace, controller.name)
                else:
                    owner = Owner(kind, meta.namespace, meta.name)
                self._by_prefix[meta.namespace, meta.name] = owner

        # For other workloads, take the prefix from pods that still exist.
        for template in cluster.pods.templates:
            if template.metadata.generate_name:
                key = template.metadata.namespace, template.metadata.generate_name.removesuffix("-")
                self._by_prefix.setdefault(key, find_owner(template))

    def resolve_workload(self, namespace: str, name: str) -> Owner:
        """Return the workload of the pod with this name, or the pod itself if its workload is unknown.

        The pod need not exist any more. Its name begins like the names of the workload's other pods, and ends with a
        random suffix or a number.
        """
        pod = self._cluster.pod(namespace, name)
        if pod is not None:
            return find_owner(pod)
        prefix, _, suffix = name.rpartition("-")
        workload = self._by_prefix.get((namespace, prefix))
        if workload is not None and (len(suffix) == RANDOM_SUFFIX_LENGTH or suffix.isdecimal()):
            return workload
        return Owner("Pod", namespace, name)


NOT_GROWING_KINDS = ("DaemonSet", "Node")
"""The owner kinds whose pods are bound to nodes one by one, so that more of them cannot be added."""


class Growth(NamedTuple):
    """The effects of a tier's growth."""

    tier: GrownTier | None = None
    """The tier that grew, None if no tier can grow."""
    victims: tuple[EvictedWorkload, ...] = ()
    """The preempted pods, in order."""
    unknown: tuple[UnknownKind, ...] = ()
    """The unread data that the replay depends on."""


def simulate_tier_growth(
    scheduler: Scheduler, tiers: Tiers, limits: PriorityLimits, on_done: Callable[[int], None]
) -> Growth:
    """Replay additional pods of a tier, then recreate the pods that they preempt, and report the victims.

    The result is empty if no tier can grow, or if `limits` ask for no additional pods. `on_done` is called as pods are
    scheduled. Raises UsageError for an unknown tier.
    """
    info_number = _find_info_to_clone(scheduler, tiers, limits)
    if info_number is None or not limits.grow:
        return Growth()

    simulation = Simulation(scheduler)
    cloned_position = tiers.find_pod_with_info(info_number)
    clones = simulation.view.add_clones(cloned_position, limits.grow)
    outcomes = simulation.schedule_or_raise_interrupt(clones, on_done)
    first_failure = next((outcome.message for outcome in simulation.explain(outcomes) if not outcome.is_placed), "")
    simulation.preemption = False  # preempted pods do not preempt others when they are recreated
    simulation.schedule_or_raise_interrupt(recreate_gone_pods(simulation, list_victims(outcomes)))

    tier = int(tiers.tier_by_info[info_number])
    cloned_pod = tiers.pods.objects[cloned_position]
    tightest_quota = RemainingQuotas(scheduler.cluster).find_tightest_quota(cloned_pod, limits.grow)
    report = GrownTier(
        tier=tiers.names[tier],
        priority=int(tiers.priorities[tier]),
        like=cloned_pod.key,
        workload=str(find_owner(cloned_pod)),
        asked=limits.grow,
        placed=sum(outcome.is_placed for outcome in outcomes),
        message=first_failure,
        created=tightest_quota.pods if tightest_quota else None,
        quota=tightest_quota.quota if tightest_quota else "",
    )
    victims = _group_preempted_by_workload(tiers, report_evictions(simulation))
    return Growth(report, victims, find_simulation_unknowns(simulation))


def _find_info_to_clone(scheduler: Scheduler, tiers: Tiers, limits: PriorityLimits) -> int | None:
    """Return the number of the PodInfo to clone, which has the most pods in the tier that grows.

    Return None if no pod of the tier can be cloned. The limits may name the tier. By default, it is the highest
    non-system tier with pods that can be cloned and may preempt others. If there is none, the pods need not preempt.
    Raises UsageError for an unknown tier.
    """
    pods_by_info = np.bincount(tiers.pods.info, minlength=len(tiers.pods.infos))
    is_clonable_info = tiers.pods.where(lambda info: _can_clone(scheduler, info)) & (pods_by_info > 0)
    if limits.tier:
        tier = _resolve_tier(tiers, limits.tier)
    else:
        highest_tier = _find_highest_tier_to_grow(tiers, is_clonable_info)
        if highest_tier is None:
            return None
        tier = highest_tier
    is_clonable_in_tier = is_clonable_info & (tiers.tier_by_info == tier)
    if not is_clonable_in_tier.any():
        return None
    return int(np.where(is_clonable_in_tier, pods_by_info, 0).argmax())


def _find_highest_tier_to_grow(tiers: Tiers, is_clonable_info: Bools) -> int | None:
    """Return the highest non-system tier with PodInfos that can be cloned, preferably ones that may preempt others.

    Return None if no such tier has PodInfos that can be cloned.
    """
    is_user_info = is_clonable_info & ~tiers.above_user_priorities[tiers.tier_by_info]
    if not is_user_info.any():
        return None
    is_preempting_info = is_user_info & tiers.allowed_to_preempt
    is_preferred_info = is_preempting_info if is_preempting_info.any() else is_user_info
    return int(tiers.tier_by_info[is_preferred_info].min())  # the highest tier has number 0


def _can_clone(scheduler: Scheduler, info: PodInfo) -> bool:
    """Return whether further pods with this PodInfo can be created and scheduled.

    A profile must serve the pod. The pod must not be terminating, and must have no claims and no scheduling group. Its
    owner must not be a DaemonSet or a Node.
    """
    spec = info.spec
    has_volume_claims = any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes)
    if spec.resource_claims or has_volume_claims or spec.scheduling_group is not None:
        return False
    if info.terminating or find_owner(info.pod).kind in NOT_GROWING_KINDS:
        return False
    return scheduler.find_framework(spec.scheduler_name) is not None


def _resolve_tier(tiers: Tiers, tier_name: str) -> int:
    """Return the index of the tier that has the given PriorityClass name or priority value.

    Raises UsageError if there is no such tier.
    """
    for tier, (name, value) in enumerate(zip(tiers.names, tiers.priorities.tolist(), strict=True)):
        if tier_name in (str(value), *name.split(", ")):
            return tier
    raise UsageError(f'no pod has priority "{tier_name}"', where="--tier", hint=f"available: {', '.join(tiers.names)}")


def _group_preempted_by_workload(tiers: Tiers, evicted: tuple[EvictedPod, ...]) -> tuple[EvictedWorkload, ...]:
    """Group preempted pods by workload, in order of preemption. Pods that were already terminating are left out."""
    groups: dict[str, list[EvictedPod]] = {}
    for evicted_pod in evicted:
        if not tiers.pods.terminating[_get_info_number(tiers, evicted_pod)]:
            groups.setdefault(evicted_pod.workload, []).append(evicted_pod)
    return tuple(_build_evicted_workload(workload, pods, tiers) for workload, pods in groups.items())


def _build_evicted_workload(workload: str, pods: Sequence[EvictedPod], tiers: Tiers) -> EvictedWorkload:
    """Build the report about the preempted pods of a workload, with the tier and the Services of its first pod."""
    first_pod = pods[0]
    info_number = _get_info_number(tiers, first_pod)
    return EvictedWorkload(
        workload=workload,
        tier=tiers.names[int(tiers.tier_by_info[info_number])],
        priority=first_pod.priority,
        pods=tuple(pods),
        services=tiers.services[info_number],
    )


def _get_info_number(tiers: Tiers, evicted: EvictedPod) -> int:
    """Return the number of a preempted pod's PodInfo."""
    return tiers.pods.get_info_number(tiers.pods.index[evicted.pod])
