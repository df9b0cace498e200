"""PodGroups of scheduler-plugins and of Kubernetes that wait for pods that do not exist yet.

PodGroups whose pods exist are not reported here, as their pods are pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kschedctl.api.gangs import find_coscheduling_gang
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere.entries import build_entry, find_condition, iter_pod_templates
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import counted

SCHEDULER_PLUGINS = "Coscheduling of scheduler-plugins"
KUBE_SCHEDULER = "kube-scheduler"
_NOT_STARTED = frozenset({"", "Pending", "PreScheduling", "Scheduling"})
_SCHEDULED = ("PodGroupScheduled", "PodGroupInitiallyScheduled")


def find_coscheduling_groups(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield the PodGroups of scheduler-plugins that have fewer pods than minMember."""
    if not cluster.coscheduling_pod_groups:
        return
    members: Counter[tuple[str, str]] = Counter()
    for pod, number in iter_pod_templates(cluster.pods):
        if key := find_coscheduling_gang(pod):
            members[key.namespace, key.name] += number
    for group in cluster.coscheduling_pod_groups:
        meta, wanted, phase = group.metadata, group.spec.min_member, group.status.phase
        existing = members[meta.namespace, meta.name]
        if phase not in _NOT_STARTED or existing >= wanted:
            continue
        yield build_entry(
            "PodGroup",
            meta,
            WaitingState.NOT_ADMITTED,
            f"waits for its pods: {existing:,} of minMember {wanted:,} {'exists' if existing == 1 else 'exist'}",
            now=now,
            pods=wanted,
            decides=SCHEDULER_PLUGINS,
            details=(f"its phase is {phase or 'not set yet'}",),
        )


def find_native_groups(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield the PodGroups of Kubernetes that are not scheduled and have fewer pods than minCount."""
    if not cluster.pod_groups:
        return
    members: Counter[tuple[str, str | None]] = Counter()
    for pod, number in iter_pod_templates(cluster.pods):
        if pod.spec.scheduling_group is not None:
            members[pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name] += number
    for group in cluster.pod_groups:
        meta, gang = group.metadata, group.spec.scheduling_policy.gang
        existing = members[meta.namespace, meta.name]
        scheduled = [c for type_ in _SCHEDULED if (c := find_condition(group.status.conditions, type_))]
        if any(condition.status == "True" for condition in scheduled) or gang is None or existing >= gang.min_count:
            continue
        yield build_entry(
            "PodGroup",
            meta,
            WaitingState.NOT_ADMITTED,
            f"waits for its pods: {counted(existing, 'pod')} of minCount {gang.min_count:,} "
            f"{'exists' if existing == 1 else 'exist'}",
            now=now,
            pods=gang.min_count,
            decides=KUBE_SCHEDULER,
            conditions=group.status.conditions,
        )
