"""Pods behind Services that other tiers may preempt, and pods that were preempted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kschedctl.api.events import PREEMPTED, count_occurrences, last_seen
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.priorities.report import ExposedWorkload, PreemptedWorkload
from kschedctl.commands.audit.priorities.tiers import Tiers
from kschedctl.scheduler.engine.preemption.budgets import find_budgets


def find_exposed_workloads(tiers: Tiers) -> tuple[ExposedWorkload, ...]:
    """Return the workloads behind Services that a higher non-system tier may preempt, most pods first."""
    pods = tiers.pods
    is_user_tier = ~tiers.is_system[tiers.tier_by_pod]
    can_preempt = is_user_tier & tiers.can_preempt[pods.info]
    pods_above = np.cumsum([0, *tiers.count_pods_by_tier(can_preempt)]).tolist()
    jobs_above = np.cumsum([0, *tiers.count_pods_by_tier(can_preempt & tiers.owned_by_job[pods.info])]).tolist()
    tier_preempts = [count > 0 for count in tiers.count_pods_by_tier(can_preempt)]
    counts = np.bincount(pods.info[tiers.running], minlength=len(pods.infos))
    groups: dict[tuple[str, int], list[int]] = {}
    for number in np.flatnonzero(tiers.behind_service & (counts > 0)).tolist():
        tier = int(tiers.tier_by_info[number])
        if pods_above[tier]:
            groups.setdefault((str(find_owner(pods.infos[number].pod)), tier), []).append(number)
    workloads = (
        ExposedWorkload(
            workload=workload,
            tier=tiers.names[tier],
            priority=int(tiers.priorities[tier]),
            pods=int(counts[numbers].sum()),
            services=tiers.services[numbers[0]],
            tiers_above=tuple(tiers.names[k] for k in range(tier) if tier_preempts[k]),
            pods_above=pods_above[tier],
            jobs_above=jobs_above[tier],
            budgets=_find_protecting_budgets(tiers, numbers),
        )
        for (workload, tier), numbers in groups.items()
    )
    return tuple(sorted(workloads, key=lambda workload: (-workload.pods, workload.workload)))


def _find_protecting_budgets(tiers: Tiers, numbers: list[int]) -> tuple[str, ...]:
    """Return the PDBs that protect the pods of these PodInfos."""
    budgets = find_budgets(tiers.view)
    names = (name for number in numbers for name in budgets.protecting(tiers.find_pod_with_info(number)))
    return tuple(dict.fromkeys(names))


PREEMPTION_REASON = "PreemptionByScheduler"
RANDOM_SUFFIX_LENGTH = 5
"""The length of the random suffix of names of pods that a controller creates."""


class PreemptedPod(NamedTuple):
    """A pod that was preempted."""

    namespace: str
    name: str
    times: int
    """How often it was preempted under this name."""
    last: str
    """The time of the last preemption, empty if unknown."""


def find_preempted_workloads(tiers: Tiers) -> tuple[PreemptedWorkload, ...]:
    """Return the workloads that lost pods to preemption, those with the most preemptions first."""
    cluster = tiers.view.cluster
    workload_index = PodWorkloadIndex(cluster)
    groups: dict[str, list[PreemptedPod]] = {}
    for victim in _iter_preempted_pods(cluster):
        groups.setdefault(str(workload_index.find_workload(victim.namespace, victim.name)), []).append(victim)
    counts = (np.bincount(tiers.pods.info, minlength=len(tiers.pods.infos)) * ~tiers.pods.terminating).tolist()
    pods = dict.fromkeys(groups, 0)
    for info, number in zip(tiers.pods.infos, counts, strict=True):
        if (workload := str(find_owner(info.pod))) in pods:
            pods[workload] += number
    workloads = (
        PreemptedWorkload(
            workload=workload,
            times=sum(victim.times for victim in victims),
            pods=pods[workload],
            last=max(victim.last for victim in victims),
            victims=tuple(dict.fromkeys(f"{victim.namespace}/{victim.name}" for victim in victims)),
        )
        for workload, victims in groups.items()
    )
    return tuple(sorted(workloads, key=lambda workload: (-workload.times, workload.workload)))


def _iter_preempted_pods(cluster: Cluster) -> Iterator[PreemptedPod]:
    """Yield each preempted pod once, from events and from terminating pods without an event."""
    reported = set()
    for event in cluster.events:
        reference = event.involved_object
        if event.reason == PREEMPTED and reference.kind in ("", "Pod"):
            reported.add((reference.namespace, reference.name))
            yield PreemptedPod(reference.namespace, reference.name, count_occurrences(event), last_seen(event))
    for row in cluster.pods.find_rows(_is_preempted).tolist():
        pod = cluster.pods[row]
        if (pod.metadata.namespace, pod.metadata.name) not in reported:
            yield PreemptedPod(
                pod.metadata.namespace, pod.metadata.name, 1, cluster.pods.columns.disrupted.text_of(row)
            )


def _is_preempted(template: Pod) -> bool:
    """Return whether pods of a template are being preempted."""
    return any(c.type == "DisruptionTarget" and c.reason == PREEMPTION_REASON for c in template.status.conditions)


class PodWorkloadIndex:
    """An index of the workloads of pods, including deleted ones, by the prefixes of pod names."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_prefix: dict[tuple[str, str], Owner] = {}
        for kind, workloads in (("ReplicaSet", cluster.replica_sets), ("StatefulSet", cluster.stateful_sets)):
            for workload in workloads:
                meta = workload.metadata
                controller = find_controller(meta)
                owner = (
                    (controller.kind, meta.namespace, controller.name)
                    if controller
                    else (kind, meta.namespace, meta.name)
                )
                self._by_prefix[meta.namespace, meta.name] = Owner(*owner)
        for template in cluster.pods.templates:
            if template.metadata.generate_name:
                key = template.metadata.namespace, template.metadata.generate_name.removesuffix("-")
                self._by_prefix.setdefault(key, find_owner(template))

    def find_workload(self, namespace: str, name: str) -> Owner:
        """Return the workload of the pod with this name, or the pod itself if its workload is unknown."""
        pod = self._cluster.pod(namespace, name)
        if pod is not None:
            return find_owner(pod)
        prefix, _, suffix = name.rpartition("-")
        workload = self._by_prefix.get((namespace, prefix))
        if workload is not None and (len(suffix) == RANDOM_SUFFIX_LENGTH or suffix.isdecimal()):
            return workload
        return Owner("Pod", namespace, name)
