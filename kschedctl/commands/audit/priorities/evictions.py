"""Pods that serve users and that other tiers may evict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kschedctl.api.objects import Pod
from kschedctl.api.observed.events import PREEMPTED, count_occurrences, last_seen
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.priorities.report import ExposedWorkload, PreemptedWorkload
from kschedctl.commands.audit.priorities.tiers import Tiers
from kschedctl.scheduler.engine.preemption.budgets import find_budgets


def exposed(tiers: Tiers) -> tuple[ExposedWorkload, ...]:
    """Workloads behind a Service that a tier above, the system's aside, may evict: the most pods first."""
    pods = tiers.pods
    users = ~tiers.system[tiers.of_pod]
    preempting = users & tiers.preempts[pods.info]
    above = np.cumsum([0, *tiers.pods_by_tier(preempting)]).tolist()
    jobs_above = np.cumsum([0, *tiers.pods_by_tier(preempting & tiers.of_jobs[pods.info])]).tolist()
    evicting = [count > 0 for count in tiers.pods_by_tier(preempting)]
    counts = np.bincount(pods.info[tiers.running], minlength=len(pods.infos))
    groups: dict[tuple[str, int], list[int]] = {}
    for number in np.flatnonzero(tiers.user_facing & (counts > 0)).tolist():
        tier = int(tiers.of_info[number])
        if above[tier]:
            groups.setdefault((str(find_owner(pods.infos[number].pod)), tier), []).append(number)
    workloads = (
        ExposedWorkload(
            workload=workload,
            tier=tiers.names[tier],
            priority=int(tiers.values[tier]),
            pods=int(counts[numbers].sum()),
            services=tiers.services[numbers[0]],
            tiers_above=tuple(tiers.names[k] for k in range(tier) if evicting[k]),
            pods_above=above[tier],
            jobs_above=jobs_above[tier],
            budgets=_budgets(tiers, numbers),
        )
        for (workload, tier), numbers in groups.items()
    )
    return tuple(sorted(workloads, key=lambda workload: (-workload.pods, workload.workload)))


def _budgets(tiers: Tiers, numbers: list[int]) -> tuple[str, ...]:
    known = find_budgets(tiers.view)
    names = (name for number in numbers for name in known.protecting(tiers.first(number)))
    return tuple(dict.fromkeys(names))


BY_SCHEDULER = "PreemptionByScheduler"
RANDOM = 5
"""Letters that end the name of a pod that a controller made of a template."""


class PreemptedPod(NamedTuple):
    """A pod that was preempted, how often under this name, and when last, empty where nobody says."""

    namespace: str
    name: str
    times: int
    last: str


def preempted(tiers: Tiers) -> tuple[PreemptedWorkload, ...]:
    """By workload, the most often preempted first."""
    cluster = tiers.view.cluster
    makers = PodMakers(cluster)
    groups: dict[str, list[PreemptedPod]] = {}
    for victim in _victims(cluster):
        groups.setdefault(str(makers.of(victim.namespace, victim.name)), []).append(victim)
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


def _victims(cluster: Cluster) -> Iterator[PreemptedPod]:
    """Each once: of events, then of pods that are leaving and of which there is none."""
    reported = set()
    for event in cluster.events:
        about = event.involved_object
        if event.reason == PREEMPTED and about.kind in ("", "Pod"):
            reported.add((about.namespace, about.name))
            yield PreemptedPod(about.namespace, about.name, count_occurrences(event), last_seen(event))
    for row in cluster.pods.find_rows(_is_preempted).tolist():
        pod = cluster.pods[row]
        if (pod.metadata.namespace, pod.metadata.name) not in reported:
            yield PreemptedPod(
                pod.metadata.namespace, pod.metadata.name, 1, cluster.pods.columns.disrupted.text_of(row)
            )


def _is_preempted(template: Pod) -> bool:
    return any(c.type == "DisruptionTarget" and c.reason == BY_SCHEDULER for c in template.status.conditions)


class PodMakers:
    """Who made pods, also of those that are gone: by the names that controllers give."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_prefix: dict[tuple[str, str], Owner] = {}
        for kind, workloads in (("ReplicaSet", cluster.replica_sets), ("StatefulSet", cluster.stateful_sets)):
            for workload in workloads:
                meta = workload.metadata
                by = find_controller(meta)
                maker = (by.kind, meta.namespace, by.name) if by else (kind, meta.namespace, meta.name)
                self._by_prefix[meta.namespace, meta.name] = Owner(*maker)
        for template in cluster.pods.templates:
            if template.metadata.generate_name:
                key = template.metadata.namespace, template.metadata.generate_name.removesuffix("-")
                self._by_prefix.setdefault(key, find_owner(template))

    def of(self, namespace: str, name: str) -> Owner:
        """The workload of a pod of that name; the pod itself where nothing tells it."""
        pod = self._cluster.pod(namespace, name)
        if pod is not None:
            return find_owner(pod)
        prefix, _, suffix = name.rpartition("-")
        known = self._by_prefix.get((namespace, prefix))
        if known is not None and (len(suffix) == RANDOM or suffix.isdecimal()):
            return known
        return Owner("Pod", namespace, name)
